#include "rendezvous/membership.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/text.h"
#include "rendezvous/interface.h"

namespace thinwire::rendezvous {
namespace {

constexpr Seconds kSendTimeout{5};

std::string this_host() {
  char name[256] = "unknown host";
  gethostname(name, sizeof name - 1);
  return name;
}

// Returns the error of this rank, which cannot join because of `refusal`.
TransportError cannot_join(const JoinOptions& options, const Refusal& refusal,
                           std::string_view reason) {
  ErrorFields fields;
  fields.rank = options.rank;
  fields.peer = refusal.peer;
  if (refusal.peer == 0) fields.host = options.master_host;
  fields.operation = "join";
  fields.remedy = refusal.remedy;
  return {TransportError::Kind::join,
          fmt::format("rank {} ({}): cannot join the group of {} at {}:{}: {}", options.rank,
                      this_host(), options.size, options.master_host, options.master_port, reason),
          std::move(fields)};
}

Socket listen_as_master(const JoinOptions& options, Socket inherited) {
  try {
    Socket listener =
        inherited ? std::move(inherited) : listen_at(options.master_host, options.master_port);
    // These checks need the address at which it really listens: a name may have several, and an
    // inherited socket was opened by another process.
    require_token(options, address_of(listener));
    require_interface(options, address_of(listener));
    return listener;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::address_in_use) {
      throw cannot_join(options, {0, Remedy::choose_master},
                        "the port is in use, perhaps by another job");
    }
    if (error.code() == std::errc::address_not_available) {
      throw cannot_join(
          options, {0, Remedy::choose_master},
          "no address of this machine, but rank 0 has to listen there; start rank 0 on "
          "the master");
    }
    throw cannot_join(options, {0}, error.what());
  }
}

// Rank 0 may start later than the others, so a failed connection is repeated until the deadline.
Socket connect_to_master(const JoinOptions& options, Deadline deadline) {
  auto pause = std::chrono::milliseconds(20);
  while (true) {
    try {
      return connect_to(options.master_host, options.master_port, deadline);
    } catch (const std::system_error& error) {
      if (milliseconds_left(deadline) == 0) {
        throw cannot_join(
            options, {0, Remedy::raise_join_timeout},
            fmt::format("no answer from the master for {:.0f} s ({}); rank 0 must run "
                        "there, and the firewall must let the port through",
                        options.join_timeout.count(), error.code().message()));
      }
    }
    std::this_thread::sleep_for(
        std::min(pause, std::chrono::milliseconds(milliseconds_left(deadline))));
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
}

}  // namespace

Membership::Membership(const JoinOptions& options) {
  Socket inherited(options.master_socket);
  require_token(options, options.master_host);
  join(options, std::move(inherited));
  watcher_ = std::jthread([this] { watch(); });
}

Membership::~Membership() {
  stop_.ring();
  if (watcher_.joinable()) watcher_.join();
}

void Membership::join(const JoinOptions& options, Socket inherited) {
  const Deadline deadline = deadline_in(options.join_timeout);
  if (options.rank == 0) {
    server_ = std::make_unique<RendezvousServer>(
        listen_as_master(options, std::move(inherited)),
        RendezvousRules{options.size, options.token, options.join_timeout});
  }
  socket_ = connect_to_master(options, deadline);
  try {
    authenticate(options, deadline);
  } catch (const WireError& error) {
    throw cannot_join(
        options, {0, Remedy::choose_master},
        fmt::format("the program that answers there is not thinwire, or it ended ({})",
                    error.what()));
  } catch (const std::system_error& error) {
    throw cannot_join(options, {0}, error.what());
  }
}

void Membership::authenticate(const JoinOptions& options, Deadline deadline) {
  const Nonce nonce = make_nonce();
  Payload hello;
  base::ByteWriter writer(hello);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::hello));
  writer.put(kProtocolMagic);
  writer.put(kProtocolVersion);
  writer.put(Bytes(nonce));
  send_frame(socket_, hello, deadline);

  base::ByteReader reader = read_answer(options, RendezvousMessage::challenge, deadline);
  const auto masters_nonce = take_array<Nonce>(reader);
  const auto proof = take_array<base::Digest>(reader);
  reader.expect_end();
  const bool proven =
      base::equal_digests(proof, prove(options.token, Role::master, {nonce, masters_nonce}));
  present(options, proven, {nonce, masters_nonce}, deadline);
  if (!proven) {
    throw cannot_join(options, {0, Remedy::share_token},
                      "the master does not know this rank's job token, or has another one");
  }
  reader_.allow(kLongestMessage);

  // The server itself ends the wait and names the missing ranks. This side waits a little longer,
  // so that it receives the answer.
  reader = read_answer(options, RendezvousMessage::welcome, deadline + std::chrono::seconds(2));
  for (int rank = 0; rank < options.size; ++rank) {
    hosts_.push_back(reader.get_text(kLongestText));
  }
  reader.expect_end();
}

// A master that has not proven itself gets no proof. It still gets rank and host, so that it can
// name this rank in its own error.
void Membership::present(const JoinOptions& options, bool proven, std::array<Nonce, 2> nonces,
                         Deadline deadline) {
  Payload claims;
  base::ByteWriter claim(claims);
  claim.put(static_cast<std::uint32_t>(options.rank));
  claim.put(static_cast<std::uint32_t>(options.size));
  claim.put_text(this_host());
  const base::Digest proof =
      proven ? prove(options.token, Role::rank, {nonces[0], nonces[1], claims}) : base::Digest{};
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::present));
  writer.put(Bytes(proof));
  writer.put(Bytes(claims));
  send_frame(socket_, message, deadline);
}

// Returns the next message of the server, which must be of the expected kind. It is valid until the
// next one is read. Throws TransportError if the server refuses this rank.
base::ByteReader Membership::read_answer(const JoinOptions& options, RendezvousMessage expected,
                                         Deadline deadline) {
  const auto answer = read_frame(socket_, reader_, deadline);
  if (!answer) throw WireError("rendezvous: the server did not answer in time");
  base::ByteReader reader(*answer, "rendezvous answer");
  const auto kind = static_cast<RendezvousMessage>(reader.get<std::uint8_t>());
  if (kind == RendezvousMessage::refuse) {
    const Refusal refusal = Refusal::unpack(reader.get<std::uint32_t>(), options.size);
    throw cannot_join(options, refusal, base::visible(reader.get_text(kLongestText)));
  }
  if (kind != expected) {
    throw WireError(fmt::format("rendezvous: unexpected message while joining (kind {})",
                                static_cast<int>(kind)));
  }
  return reader;
}

void Membership::watch() {
  const auto report_master = [&](std::string_view reason) {
    const std::lock_guard lock(mutex_);
    if (!lost_ && !all_finished_) lost_ = LostRank{0, std::string(reason)};
  };
  for (bool open = true;;) {
    // This comes before the first wait, because messages may have arrived together with the
    // welcome.
    try {
      while (const auto message = reader_.next()) {
        handle(*message);
        if (message->front() == static_cast<std::byte>(RendezvousMessage::query)) answer_query();
      }
    } catch (const WireError& error) {
      report_master(fmt::format("it sent an unreadable message ({})", error.what()));
      open = false;
    }
    if (!open) report_master("its process ended or its machine is gone");

    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      if (lost_) callback = callback_;
    }
    changed_.notify_all();
    if (callback) callback();
    if (!open || !wait_for_message()) return;
    open = reader_.fill(socket_);
  }
}

// Returns false when this object is being destroyed.
bool Membership::wait_for_message() {
  pollfd entries[] = {{stop_.fd(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}};
  while (poll(entries, 2, -1) < 0) {
  }
  return entries[0].revents == 0;
}

void Membership::handle(Bytes message) {
  base::ByteReader reader(message, "rendezvous message");
  const auto kind = static_cast<RendezvousMessage>(reader.get<std::uint8_t>());
  const std::lock_guard lock(mutex_);
  if (kind == RendezvousMessage::value) {
    const std::string key = reader.get_text(kLongestText);
    const Bytes value = reader.take(reader.left());
    values_[key].assign(value.begin(), value.end());
  } else if (kind == RendezvousMessage::left) {
    left_.insert(static_cast<int>(reader.get<std::uint32_t>()));
  } else if (kind == RendezvousMessage::lost) {
    const int rank = static_cast<int>(reader.get<std::uint32_t>());
    if (rank < 0 || rank >= static_cast<int>(hosts_.size())) {
      throw WireError(
          fmt::format("rendezvous: the server reported the loss of rank {}, which is not in this "
                      "group (size {})",
                      rank, hosts_.size()));
    }
    if (!lost_) lost_ = LostRank{rank, reader.get_text(kLongestText)};
  } else if (kind == RendezvousMessage::all_finished) {
    all_finished_ = true;
  } else if (kind == RendezvousMessage::query) {
    ++queries_;
  } else {
    throw WireError(fmt::format("rendezvous: unknown message (kind {})", static_cast<int>(kind)));
  }
}

void Membership::send(const Payload& message) noexcept {
  const std::lock_guard lock(sending_);
  try {
    send_frame(socket_, message, deadline_in(kSendTimeout));
  } catch (const std::exception&) {
    // The watcher will read the end of the stream and report that the master is lost.
  }
}

void Membership::put(const std::string& key, Bytes value) {
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::put));
  writer.put_text(key);
  writer.put(value);
  send(message);
}

std::optional<Payload> Membership::get(const std::string& key, Deadline deadline) {
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::get));
  writer.put_text(key);
  send(message);

  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return values_.contains(key) || lost_.has_value(); });
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::optional<LostRank> Membership::loss() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::optional<LostRank> Membership::wait_for_loss(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return lost_.has_value(); });
  return lost_;
}

bool Membership::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

void Membership::on_loss(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void Membership::on_query(std::function<int()> waits_for) {
  const std::lock_guard lock(mutex_);
  waits_for_ = std::move(waits_for);
}

void Membership::answer_query() {
  std::function<int()> waits_for;
  {
    const std::lock_guard lock(mutex_);
    waits_for = waits_for_;
  }
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::answer));
  writer.put(static_cast<std::uint32_t>(waits_for ? waits_for() : kNoRank));
  send(message);
}

std::optional<LostRank> Membership::report_suspect(FailureDetector::Kind kind, int about,
                                                   const std::string& text) {
  std::unique_lock lock(mutex_);
  if (lost_) return lost_;
  const std::uint64_t heard = queries_;
  lock.unlock();
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::report_suspect));
  writer.put(static_cast<std::uint32_t>(about));
  writer.put(static_cast<std::uint8_t>(kind));
  writer.put_text(text);
  send(message);
  lock.lock();
  const auto decided = [&] { return lost_.has_value() || all_finished_; };
  changed_.wait_until(lock, deadline_in(kAnswerTime),
                      [&] { return decided() || queries_ > heard; });
  if (queries_ > heard) {
    // Rank 0 is asking all ranks. It decides at the latest when the time for their answers is over.
    changed_.wait_until(lock, deadline_in(kAnswerTime * 1.5), decided);
  }
  const bool all_answered =
      kind == FailureDetector::Kind::absence && (queries_ > heard || all_finished_);
  if (lost_ || all_answered) return lost_;
  // Rank 0 does not answer, so this rank itself wakes the waits of this process.
  const LostRank culprit = lost_.emplace(silent_rank(0, text));
  const std::function<void()> callback = callback_;
  lock.unlock();
  changed_.notify_all();
  if (callback) callback();
  return culprit;
}

std::optional<LostRank> Membership::leave(Seconds timeout) {
  send({static_cast<std::byte>(RendezvousMessage::finished)});
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline_in(timeout),
                        [&] { return all_finished_ || lost_.has_value(); });
    // This rank has finished its work, so the loss of another rank is not its error. It may have
    // handled that loss before.
    if (all_finished_ || lost_) return std::nullopt;
    int missing = 0;
    while (left_.contains(missing)) ++missing;
    lock.unlock();
    const Seconds waited = std::chrono::steady_clock::now() - start;
    auto loss = report_suspect(FailureDetector::Kind::absence, missing,
                               fmt::format("no final message for {:.1f} s", waited.count()));
    if (loss) return loss;
  }
}

void Membership::fail(int culprit, const std::string& reason) noexcept {
  Payload message;
  base::ByteWriter writer(message);
  writer.put(static_cast<std::uint8_t>(RendezvousMessage::fail));
  writer.put(static_cast<std::uint32_t>(culprit));
  writer.put_text(reason.substr(0, kLongestText));
  send(message);
  // Rank 0 must not stop its server before the others have received the message.
  if (!server_) return;
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_in(Seconds(1)), [&] { return lost_.has_value(); });
}

}  // namespace thinwire::rendezvous
