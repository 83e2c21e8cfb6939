// Gloo over TCP. Gloo's unbound buffers do not report how many bytes arrived, and Gloo aborts the
// process if a message is longer than its buffer. So a message is sent as
//   a head   its length (u64), and, up to kInline bytes, the message itself
//   a body   longer messages, straight from and into the caller's memory, in pieces of kPiece
// The slot of a piece contains the length of the piece, so that pieces match only if both sides use
// the same length. The head and body of an exact receive are posted at once; any other receive
// waits for the head, which has the length, before it posts the body.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "transport/backends.h"
#include "transport/gloo/gloo_group.h"
#include "transport/lost_while_leaving.h"
#include "transport/ticket_pool.h"

namespace thinwire::transport {
namespace {

using Buffer = GlooGroup::Buffer;

constexpr std::size_t kInline = 1008;
constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr std::size_t kHeadBytes = sizeof(std::uint64_t) + kInline;

// The bits of a slot: 1 for head or body, 15 for the lane, 17 for the tag, 31 for the length of the
// piece.
static_assert(GlooGroup::kMostLanes <= 1 << 15 && kTagLimit <= 1 << 17 && kPiece < 1u << 31);
std::uint64_t head_slot(int lane, Tag tag) {
  return static_cast<std::uint64_t>(lane) << 48 | static_cast<std::uint64_t>(tag) << 31;
}
std::uint64_t body_slot(int lane, Tag tag, std::size_t piece) {
  return std::uint64_t{1} << 63 | head_slot(lane, tag) | piece;
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::shared_ptr<GlooGroup> group, int rank)
      : Transport(rank, group->hosts(), system_runtime()), group_(std::move(group)) {}
  GlooTransport(const GlooTransport& first, int lane)
      : Transport(first, system_runtime()), group_(first.group_), lane_(lane) {}

 private:
  struct Operation {
    std::array<std::byte, kHeadBytes> head_bytes;
    std::unique_ptr<Buffer> head;  // of head_bytes; kept for later messages
    std::unique_ptr<Buffer> body;  // of the caller's memory; for one message
    MutBytes memory;
    int peer = kAnyRank;
    bool head_received = false;
    std::size_t length = 0;     // of the message, once known
    std::size_t body_done = 0;  // bytes
    bool broken = false;        // Gloo refused to post it; wait() throws
  };

  std::uint32_t start(int peer, MutBytes memory) {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    if (!operation.head) {
      operation.head = group_->buffer(operation.head_bytes.data(), operation.head_bytes.size());
    }
    operation.memory = memory;
    operation.peer = peer;
    operation.head_received = operation.broken = false;
    operation.length = operation.body_done = 0;
    return ticket;
  }

  // Posts the body in pieces by `post(slot, offset, bytes)`.
  template <class Post>
  void post_body(Operation& operation, Tag tag, std::size_t length, Post post) {
    if (length <= kInline) return;
    operation.body = group_->buffer(operation.memory.data(), length);
    for (std::size_t offset = 0; offset < length; offset += kPiece) {
      const std::size_t piece = std::min(kPiece, length - offset);
      post(body_slot(lane_, tag, piece), offset, piece);
    }
  }

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    // Gloo takes no pointer to const, but does not write to what it sends.
    auto* memory = const_cast<std::byte*>(message.data());
    const std::uint32_t ticket = start(to, {memory, message.size()});
    Operation& operation = operations_[ticket];
    operation.length = message.size();
    const std::uint64_t length = message.size();
    const std::size_t inlined = length <= kInline ? message.size() : 0;
    std::memcpy(operation.head_bytes.data(), &length, sizeof length);
    if (inlined > 0) {
      std::memcpy(operation.head_bytes.data() + sizeof length, message.data(), inlined);
    }
    try {
      operation.head->send(to, head_slot(lane_, tag), 0, sizeof length + inlined);
      post_body(operation, tag, message.size(), [&](auto slot, auto offset, auto bytes) {
        operation.body->send(to, slot, offset, bytes);
      });
    } catch (const gloo::IoException&) {
      operation.broken = true;  // wait() throws
    }
    return ticket;
  }

  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    const std::uint32_t ticket = start(from, into);
    Operation& operation = operations_[ticket];
    try {
      if (from == kAnyRank) {
        operation.head->recv(group_->peers(), head_slot(lane_, tag), 0, kHeadBytes);
      } else {
        operation.head->recv(from, head_slot(lane_, tag), 0, kHeadBytes);
      }
      // Bodies must be posted in the order of their heads.
      const bool overtakes = std::ranges::any_of(
          unknown_lengths_, [&](const UnknownLength& earlier) { return earlier.tag == tag; });
      if (fit == Fit::exact && from != kAnyRank && !overtakes) {
        receive_body(operation, tag, into.size());
      } else {
        unknown_lengths_.push_back({ticket, tag});
      }
    } catch (const gloo::IoException&) {
      operation.broken = true;
    }
    return ticket;
  }

  void receive_body(Operation& operation, Tag tag, std::size_t length) {
    post_body(operation, tag, length, [&](auto slot, auto offset, auto bytes) {
      operation.body->recv(operation.peer, slot, offset, bytes);
    });
  }

  Received do_wait(const Pending& pending, Seconds timeout) override {
    Operation& operation = operations_[pending.ticket];
    if (operation.broken) blame(operation);
    if (pending.kind == Pending::Kind::send) {
      wait_for(operation, *operation.head, timeout, &wait_sent);
    } else {
      receive_heads_until(pending.ticket, pending.tag, timeout);
      if (pending.fit == Fit::exact && operation.length != pending.bytes) {
        throw WrongSize{operation.peer, operation.length};
      }
    }
    if (operation.body) {
      finish_body(operation, timeout, pending.kind == Pending::Kind::send ? &wait_sent : &wait_got);
    }
    const Received received{operation.peer, operation.length};
    operations_.release(pending.ticket);
    return received;
  }

  // Receives the head of this operation, and before it those of earlier receives with the same tag
  // that still need their length.
  void receive_heads_until(std::uint32_t ticket, Tag tag, Seconds timeout) {
    for (auto next = unknown_lengths_.begin(); next != unknown_lengths_.end();) {
      const UnknownLength current = *next;
      if (current.tag != tag) {
        ++next;
        continue;
      }
      Operation& operation = operations_[current.ticket];
      receive_head(operation, timeout);
      try {
        receive_body(operation, tag, operation.length);
      } catch (const gloo::IoException&) {
        blame(operation);
      }
      next = unknown_lengths_.erase(next);
      if (current.ticket == ticket) return;
    }
    receive_head(operations_[ticket], timeout);
  }

  void receive_head(Operation& operation, Seconds timeout) {
    if (std::exchange(operation.head_received, true)) return;
    wait_for(operation, *operation.head, timeout, [&](Buffer& head, auto limit) {
      int from = operation.peer;
      const bool completed = head.waitRecv(&from, limit);
      if (completed) operation.peer = from;
      return completed;
    });
    std::uint64_t length = 0;
    std::memcpy(&length, operation.head_bytes.data(), sizeof length);
    operation.length = static_cast<std::size_t>(length);
    if (operation.length > operation.memory.size()) {
      throw WrongSize{operation.peer, operation.length};
    }
    if (operation.length <= kInline && operation.length > 0) {
      std::memcpy(operation.memory.data(), operation.head_bytes.data() + sizeof length,
                  operation.length);
    }
  }

  static bool wait_sent(Buffer& buffer, std::chrono::milliseconds limit) {
    return buffer.waitSend(limit);
  }
  static bool wait_got(Buffer& buffer, std::chrono::milliseconds limit) {
    return buffer.waitRecv(limit);
  }

  template <class Wait>
  void finish_body(Operation& operation, Seconds timeout, Wait wait_once) {
    while (operation.body_done < operation.length) {
      wait_for(operation, *operation.body, timeout, wait_once);
      operation.body_done = std::min(operation.body_done + kPiece, operation.length);
    }
    operation.body.reset();
  }

  template <class Wait>
  void wait_for(Operation& operation, Buffer& buffer, Seconds timeout, Wait wait_once) {
    const GlooGroup::Outcome outcome = group_->wait(buffer, operation.peer, timeout, wait_once);
    if (outcome == GlooGroup::Outcome::late) blame_delay(operation, timeout);
    if (outcome == GlooGroup::Outcome::broken) blame(operation);
  }

  // A late peer may itself be waiting for another rank. Then the error names the rank for which all
  // wait.
  [[noreturn]] void blame_delay(const Operation& operation, Seconds timeout) {
    if (operation.peer == kAnyRank) throw DeadlinePassed{operation.body_done};
    if (group_->has_left(operation.peer)) {
      throw PeerLost{operation.peer, "it has already finished", operation.body_done};
    }
    const rendezvous::LostRank loss = group_->culprit_of_delay(operation.peer, timeout);
    if (loss.rank == operation.peer) throw DeadlinePassed{operation.body_done};
    throw PeerLost{loss.rank, loss.reason, operation.body_done};
  }

  [[noreturn]] void blame(const Operation& operation) {
    const rendezvous::LostRank loss = group_->culprit_of_break(operation.peer);
    throw PeerLost{loss.rank, loss.reason, operation.body_done};
  }

  void do_cancel() noexcept override {
    for (Operation& operation : operations_) {
      operation.head.reset();
      operation.body.reset();
    }
  }

  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<GlooTransport>(*this, group_->next_lane());
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<GlooTransport>(*this, lane_);
  }

  // Rank 0 announces the failure to all ranks, also to this one, whose waits then end.
  void do_abort(const std::string& reason) noexcept override { group_->fail(rank(), reason); }

  // A receive whose body is not posted yet, because its length is unknown.
  struct UnknownLength {
    std::uint32_t ticket;
    Tag tag;
  };

  std::shared_ptr<GlooGroup> group_;  // shared by the lanes of this rank
  int lane_ = 0;
  std::vector<UnknownLength> unknown_lengths_;  // in the order posted
  TicketPool<Operation> operations_;
};

// Gloo writes to sockets whose other end may be closed, and the default action of SIGPIPE would end
// the process without a message. If the program handles SIGPIPE itself, nothing is changed.
void survive_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

void run_gloo(const BackendOptions& options, const Worker& worker) {
  survive_broken_pipes();
  const auto group = std::make_shared<GlooGroup>(options);
  try {
    GlooTransport transport(group, options.rank);
    transport.set_timeout(options.timeout);
    worker(transport);
    if (const auto loss = group->leave(options.timeout)) {
      throw lost_while_leaving(transport, loss->rank, options.timeout, loss->reason);
    }
  } catch (const TransportError& error) {
    // If this rank failed because it lost another rank, the others are to blame that rank, not this
    // one.
    const bool alone = error.peer() < 0 || error.peer() == options.rank;
    group->fail(alone ? options.rank : error.peer(),
                fmt::format("{} failed with \"{}\"",
                            alone ? "it" : fmt::format("rank {}", options.rank), error.what()));
    throw;
  } catch (const std::exception& error) {
    group->fail(options.rank, fmt::format("it failed with \"{}\"", error.what()));
    throw;
  }
}

}  // namespace thinwire::transport
