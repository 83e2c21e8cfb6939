#include "laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>

#include "base/random.h"
#include "testing/expect.h"
#include "testing/toy_training.h"
#include "tests/collective_laws.h"
#include "tests/strategy_laws.h"
#include "tests/survivor.h"
#include "thinwire/collective.h"

namespace thinwire::laws {
namespace {

constexpr Tag kTag{7};

void require(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what));
}

// A message that no other (from, number) has.
Payload message(int from, std::size_t number, std::size_t bytes) {
  Payload out(bytes);
  for (std::size_t i = 0; i < bytes; i += 16) {
    const auto block =
        base::philox(static_cast<std::uint64_t>(from), number, i / 16, base::Purpose::test);
    std::memcpy(out.data() + i, block.data(), std::min<std::size_t>(16, bytes - i));
  }
  return out;
}

// Messages of one (from, to, tag) arrive in the order sent, whatever their sizes.
void order(Transport& wire) {
  const auto bytes = [](std::size_t i) { return (i * 7919) % 5000; };
  if (wire.rank() == 0) {
    for (std::size_t i = 0; i < 200; ++i) wire.send(1, kTag, message(0, i, bytes(i)));
  } else {
    Payload room(5000);
    for (std::size_t i = 0; i < 200; ++i) {
      const Received got = wire.recv(0, kTag, room);
      require(got.from == 0 && got.bytes == bytes(i), "wrong size: out of order");
      require(std::ranges::equal(MutBytes(room).first(got.bytes), message(0, i, bytes(i))),
              "wrong bytes: out of order");
    }
  }
}

// Messages with different tags do not wait for each other.
void tags(Transport& wire) {
  const Payload first = message(0, 1, 100), second = message(0, 2, 100'000);
  if (wire.rank() == 0) {
    const Pending one = wire.post_send(1, Tag{1}, first);
    const Pending two = wire.post_send(1, Tag{2}, second);
    wire.wait(two);
    wire.wait(one);
  } else {
    Payload room(100'000);
    require(wire.recv(0, Tag{2}, room).bytes == 100'000 && room == second, "tag 2 is wrong");
    require(wire.recv(0, Tag{1}, room).bytes == 100, "tag 1 is wrong");
    require(std::ranges::equal(MutBytes(room).first(100), first), "tag 1 has wrong bytes");
  }
}

// Every size arrives whole, into a room of the exact size and into a larger one.
void sizes(Transport& wire) {
  const std::size_t kSizes[] = {0,    1,    7,        1007,           1008,           1009,
                                4096, 4097, 1u << 16, (1u << 22) - 1, (1u << 22) + 1, 64u << 20};
  Payload room;
  for (const std::size_t bytes : kSizes) {
    const Payload expected = message(0, bytes, bytes);
    if (wire.rank() == 0) {
      wire.send(1, kTag, expected);
      wire.send(1, kTag, expected);
    } else {
      room.assign(bytes, std::byte{0xee});
      wire.wait(wire.post_recv(0, kTag, room, Fit::exact));
      require(room == expected, fmt::format("{} bytes, exact: damaged", bytes));
      room.assign(bytes + 10, std::byte{0xee});
      require(wire.recv(0, kTag, room).bytes == bytes, fmt::format("{} bytes: size", bytes));
      require(std::ranges::equal(MutBytes(room).first(bytes), expected),
              fmt::format("{} bytes, in a larger room: damaged", bytes));
      require(room[bytes] == std::byte{0xee}, "written past the message");
    }
  }
}

// Any pair may swap any two sizes, all ranks at once in a ring, without deadlock.
void exchange(Transport& wire) {
  const int next = (wire.rank() + 1) % wire.size();
  const int last = (wire.rank() + wire.size() - 1) % wire.size();
  Payload room(5 << 20);
  for (std::size_t i = 0; i < 12; ++i) {
    const auto bytes = [&](int rank) {
      return i % 4 == 3 ? (std::size_t{4} << 20) + 3 : (static_cast<std::size_t>(rank) * 3001 * i);
    };
    const Payload out = message(wire.rank(), i, bytes(wire.rank()));
    const Received got = wire.exchange(next, out, last, room, kTag);
    require(got.from == last && got.bytes == bytes(last), "exchange: wrong size");
    require(std::ranges::equal(MutBytes(room).first(got.bytes), message(last, i, got.bytes)),
            "exchange: damaged");
  }
}

// Many operations may be posted before any is waited for, and waited for in any order.
void pipeline(Transport& wire) {
  constexpr std::size_t kDepth = 32;
  const int peer = 1 - wire.rank();
  std::vector<Payload> out, in(kDepth);
  std::vector<Pending> receives, sends;
  for (std::size_t i = 0; i < kDepth; ++i) {
    out.push_back(message(wire.rank(), i, 10'000 * i));
    in[i].resize(10'000 * i);
  }
  for (std::size_t i = 0; i < kDepth; ++i) receives.push_back(wire.post_recv(peer, kTag, in[i]));
  for (std::size_t i = 0; i < kDepth; ++i) sends.push_back(wire.post_send(peer, kTag, out[i]));
  for (std::size_t i = kDepth; i-- > 0;) wire.wait(sends[i]);
  for (std::size_t i = kDepth; i-- > 0;) wire.wait(receives[i]);
  for (std::size_t i = 0; i < kDepth; ++i) {
    require(in[i] == message(peer, i, 10'000 * i), "pipelined message damaged");
  }
}

// Receives that know the length of their message and receives that do not keep the order of posting
// among each other, whatever the order of waiting.
void mixed(Transport& wire) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::size_t kBytes[] = {9 * kMiB + 5, 10, 8 * kMiB, 0, 100'000, 100'000, 5 * kMiB, 100'000};
  const std::size_t count = std::size(kBytes);
  std::vector<Payload> memory(count);
  std::vector<Pending> posted(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool exact = i % 2 == 1;
    if (wire.rank() == 0) {
      memory[i] = message(0, i, kBytes[i]);
      posted[i] = wire.post_send(1, kTag, memory[i]);
    } else {
      memory[i].resize(exact ? kBytes[i] : 10 * kMiB);
      posted[i] = wire.post_recv(0, kTag, memory[i], exact ? Fit::exact : Fit::at_most);
    }
  }
  for (std::size_t i = count; i-- > 0;) {
    const Received got = wire.wait(posted[i]);
    require(got.from == 0 && got.bytes == kBytes[i], fmt::format("message {}: wrong size", i));
    require(std::ranges::equal(Bytes(memory[i]).first(got.bytes), message(0, i, kBytes[i])),
            fmt::format("message {}: wrong bytes", i));
  }
}

// A receive from any rank takes every message once and says whose it is.
void any_rank(Transport& wire) {
  constexpr std::size_t kEach = 20;
  const auto bytes = [](int rank, std::size_t i) {
    return i * 997 * static_cast<std::size_t>(rank);
  };
  if (wire.rank() != 0) {
    for (std::size_t i = 0; i < kEach; ++i) {
      wire.send(0, kTag, message(wire.rank(), i, bytes(wire.rank(), i)));
    }
    return;
  }
  std::map<int, std::size_t> seen;
  Payload room(1 << 20);
  for (std::size_t n = 0; n < kEach * static_cast<std::size_t>(wire.size() - 1); ++n) {
    const Received got = wire.recv(kAnyRank, kTag, room);
    const std::size_t i = seen[got.from]++;
    require(got.bytes == bytes(got.from, i), "any rank: wrong size");
    require(std::ranges::equal(MutBytes(room).first(got.bytes), message(got.from, i, got.bytes)),
            "any rank: damaged");
  }
  for (int rank = 1; rank < wire.size(); ++rank)
    require(seen[rank] == kEach, "a sender is missing");
}

// Two lanes carry messages of the same tag at the same time, on two threads, without mixing them.
void lanes(Transport& wire) {
  const auto swap = [](Transport& lane, int marker) {
    const int peer = 1 - lane.rank();
    Payload room(300'000);
    for (std::size_t i = 0; i < 50; ++i) {
      const std::size_t bytes = 5000 * i;
      const auto name = [&](int rank) { return 10 * marker + rank; };
      lane.exchange(peer, message(name(lane.rank()), i, bytes), peer, room, kTag);
      require(std::ranges::equal(MutBytes(room).first(bytes), message(name(peer), i, bytes)),
              "lanes are mixed up");
    }
  };
  const std::unique_ptr<Transport> other = wire.lane();
  const std::unique_ptr<Task> task = wire.launch([&] { swap(*other, 2); });
  swap(wire, 1);
  task->join();
  require(task->finished(), "a joined task is not finished");
  const std::uint64_t expected = std::uint64_t{2} * 5000 * (49 * 50 / 2);
  require(wire.traffic().bytes_sent == expected, "lanes do not share the sent bytes");
  require(other->traffic().bytes_received == expected, "lanes do not share the received bytes");
  require(wire.traffic().messages_sent == 100, "wrong number of messages");
}

// One thread of each rank sends on a lane while another receives on it, from any rank.
void handles(Transport& wire) {
  constexpr std::size_t kEach = 20;
  const auto others = static_cast<std::size_t>(wire.size() - 1);
  const auto bytes = [](std::size_t i) { return i % 3 == 0 ? i : 20'000 * i; };
  const std::unique_ptr<Transport> out = wire.lane(), in = out->clone_handle();
  const std::unique_ptr<Task> task = wire.launch([&] {
    std::map<int, std::size_t> seen;
    Payload room(20'000 * kEach);
    for (std::size_t n = 0; n < kEach * others; ++n) {
      const Received got = in->recv(kAnyRank, kTag, room);
      const std::size_t i = seen[got.from]++;
      require(got.bytes == bytes(i), "handles: wrong size");
      require(std::ranges::equal(MutBytes(room).first(got.bytes), message(got.from, i, got.bytes)),
              "handles: damaged");
    }
  });
  for (std::size_t i = 0; i < kEach; ++i) {
    for (int step = 1; step < wire.size(); ++step) {
      out->send((wire.rank() + step) % wire.size(), kTag, message(wire.rank(), i, bytes(i)));
    }
  }
  task->join();
  require(wire.traffic().messages_sent == kEach * others, "handles do not share the counters");
}

// What a task throws comes out of join(), once.
void tasks(Transport& wire) {
  const std::unique_ptr<Task> task = wire.launch([] { throw WireError("from the task"); });
  require(std::string(test::must_throw<WireError>([&] { task->join(); }).what()) == "from the task",
          "the task's error was lost");
  task->join();
  const Seconds before = wire.now();
  wire.sleep(Seconds(0.02));
  require(wire.now() - before >= Seconds(0.0199), "slept too short");
}

// Sends a peer, or receives from it, an empty message on a lane that nothing else uses, so that a
// rank goes on when the other has come to a point. Over gloo a failure of one lane may end the
// whole group, and the wait with it.
void say(Transport& lane, int to) {
  try {
    lane.send(to, kTag, {});
  } catch (const TransportError&) {
  }
}
void hear(Transport& lane, int from) {
  try {
    lane.recv(from, kTag, {});
  } catch (const TransportError&) {
  }
}

// A silent peer is an error that names it. The peers are silent until rank 0 has the error, so that
// nothing else than the deadline can be its cause.
void deadline(Transport& wire) {
  const std::unique_ptr<Transport> other = wire.lane();
  if (wire.rank() != 0) return hear(*other, 0);
  wire.set_timeout(Seconds(0.3));
  std::byte room[8];
  const Seconds start = wire.now();
  const auto error = test::must_throw<TransportError>([&] { wire.recv(2, kTag, room); });
  const Seconds waited = wire.now() - start;
  require(error.kind() == TransportError::Kind::deadline, error.what());
  require(error.peer() == 2 && std::string(error.what()).find("rank 2") != std::string::npos,
          error.what());
  require(waited >= Seconds(0.29),
          fmt::format("the deadline of 0.3 s took {:.2f} s", waited.count()));
  for (const int peer : {1, 2}) say(*other, peer);
}

// A message that does not fit, or is not what an exact receive expects, is refused by name.
void wrong_size(Transport& wire) {
  const std::unique_ptr<Transport> other = wire.lane();
  // Gloo has one connection for all lanes to a peer. It cannot skip bytes that were on their way to
  // a receive that was refused, so that no later message may arrive either.
  other->set_timeout(Seconds(10));
  if (wire.rank() == 0) {
    const Payload long_message = message(0, 0, 100'000);
    wire.post_send(1, kTag, Bytes(long_message).first(999));
    wire.post_send(2, kTag, long_message);
    for (const int peer : {1, 2}) hear(*other, peer);  // the offers stand until both have seen them
    return;
  }
  Payload room(1000);
  const auto fit = wire.rank() == 1 ? Fit::exact : Fit::at_most;
  const auto error =
      test::must_throw<WireError>([&] { wire.wait(wire.post_recv(0, kTag, room, fit)); });
  require(std::string(error.what()).find("rank 0") != std::string::npos, error.what());
  say(*other, 0);
}

// A group of one is a group: no peer, no message, no special case for the caller.
void alone(Transport& wire) {
  require(wire.rank() == 0 && wire.size() == 1, "not alone");
  const auto lane = wire.lane();
  wire.launch([] {})->join();
  test::must_throw<std::logic_error>([&] { wire.send(0, kTag, {}); });
  require(lane->traffic().bytes_sent == 0, "bytes from nowhere");
}

// One message of more than 2 GiB (an MPI count is an int).
void huge(Transport& wire) {
  const std::size_t bytes = (std::size_t{1} << 31) + 12'345;
  Payload data(bytes, std::byte{1});
  if (wire.rank() == 0) {
    data.front() = data.back() = data[std::size_t{1} << 31] = std::byte{42};
    wire.send(1, kTag, data);
  } else {
    wire.wait(wire.post_recv(0, kTag, data));
    require(data.front() == std::byte{42} && data.back() == std::byte{42} &&
                data[std::size_t{1} << 31] == std::byte{42} && data[1 << 30] == std::byte{1},
            "the huge message is damaged");
  }
}

constexpr Seconds kLongestChat{600};  // it is to be killed

void chat(Transport& wire) {
  const int next = (wire.rank() + 1) % wire.size();
  const int last = (wire.rank() + wire.size() - 1) % wire.size();
  const Seconds start = wire.now();
  Payload out(100'000), in(100'000);
  for (std::size_t i = 0; wire.now() - start < kLongestChat; ++i) {
    wire.exchange(next, out, last, in, kTag);
    if (i == 3) {
      std::puts("chatting");
      std::fflush(stdout);
    }
  }
}

// The last rank stops for good when all work is done.
void stop_at_the_end(Transport& wire) {
  barrier(wire);
  if (wire.rank() + 1 == wire.size()) std::raise(SIGSTOP);
}

// The last rank stops for good while both gossip, so that no more messages come.
void stop_in_gossip(Transport& wire) {
  test::ToyTraining training(wire, "gossip:kappa=0");
  training.run(20);
  if (wire.rank() + 1 == wire.size()) std::raise(SIGSTOP);
  while (true) training.run(1);
}

void exchange_until_error(Transport& wire, const std::string& spec) {
  SurvivorRank rank(wire, spec);
  try {
    while (true) rank.step();
  } catch (const std::exception&) {
    const std::string lost = rank.lost();
    std::puts(lost.empty() ? "lost nothing" : lost.c_str());
    std::fflush(stdout);
    throw;
  }
}

Law exchange_by(std::string_view spec) {
  return {spec, 4, [spec](Transport& wire) { exchange_until_error(wire, std::string(spec)); }};
}

const Law kChatter{"chatter", 4, chat};
const Law kStopAtTheEnd{"stop_at_the_end", 3, stop_at_the_end};
const Law kStopInGossip{"stop_in_gossip", 2, stop_in_gossip};
const Law kExchanges[] = {
    exchange_by("topk:density=0.05"),
    exchange_by("gtopk:density=0.05"),
    exchange_by("gtopk:density=0.05,residual=paper"),
    exchange_by("ps:density=0.05"),
    exchange_by("ps:density=0.05,keep=1,servers=3"),
};
const Law kLaws[] = {
    {"order", 2, order},
    {"tags", 2, tags},
    {"sizes", 2, sizes},
    {"exchange", 4, exchange},
    {"pipeline", 2, pipeline},
    {"mixed", 2, mixed},
    {"any_rank", 4, any_rank},
    {"lanes", 2, lanes},
    {"handles", 4, handles},
    {"tasks", 2, tasks},
    {"deadline", 3, deadline},
    {"wrong_size", 3, wrong_size},
    {"alone", 1, alone},
    {"huge", 2, huge},
    {"collectives", 5, check_collectives},
    {"free_pace", 4, check_asynchronous},
    {"server", 4, check_server},
    {"every_strategy", 3, check_every_strategy},
};

}  // namespace

std::span<const Law> all() { return kLaws; }

const Law& chatter() { return kChatter; }

std::span<const Law> exchanges() { return kExchanges; }

const Law& find(std::string_view name) {
  for (const Law* scenario : {&kChatter, &kStopAtTheEnd, &kStopInGossip}) {
    if (name == scenario->name) return *scenario;
  }
  const auto exchange = std::ranges::find(kExchanges, name, &Law::name);
  if (exchange != std::end(kExchanges)) return *exchange;
  const auto found = std::ranges::find(kLaws, name, &Law::name);
  if (found == std::end(kLaws)) throw ConfigError(fmt::format("no law '{}'", name));
  return *found;
}

}  // namespace thinwire::laws
