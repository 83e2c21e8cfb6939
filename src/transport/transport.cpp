// The non-virtual shell of every transport: it checks arguments, counts bytes and makes the errors.
#include "thinwire/transport.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace thinwire {
namespace {

std::string readable(std::size_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string readable(Seconds time) {
  return fmt::format("{:.{}f} s", time.count(), time < Seconds(10) ? 2 : 0);
}

// Removes the period at the end of a sentence of another program, because our own text continues
// after it.
std::string_view without_period(std::string_view sentence) {
  return sentence.substr(0, sentence.size() - (sentence.ends_with('.') ? 1 : 0));
}

// Returns the facts of an operation of `wire` that failed because of `peer`.
ErrorFields facts(const Transport& wire, const Pending& operation, int peer) {
  ErrorFields fields;
  fields.rank = wire.rank();
  fields.peer = peer;
  if (peer != kNoRank) fields.host = wire.host(peer);
  fields.operation = operation.kind == Pending::Kind::send ? "send" : "receive";
  fields.bytes_total = operation.bytes;
  return fields;
}

ErrorFields facts(const Transport& wire, const Pending& operation, int peer, std::size_t bytes_done,
                  Seconds start) {
  ErrorFields fields = facts(wire, operation, peer);
  fields.bytes_done = bytes_done;
  fields.seconds = wire.now() - start;
  return fields;
}

}  // namespace

Transport::Transport(int rank, std::vector<std::string> hosts, Runtime& runtime)
    : rank_(rank),
      size_(static_cast<int>(hosts.size())),
      hosts_(std::move(hosts)),
      runtime_(runtime),
      traffic_(std::make_shared<Traffic>()) {}

Transport::Transport(const Transport& first, Runtime& runtime)
    : rank_(first.rank_),
      size_(first.size_),
      hosts_(first.hosts_),
      runtime_(runtime),
      timeout_(first.timeout_),
      traffic_(first.traffic_) {}

void Transport::set_timeout(Seconds timeout) {
  if (!(timeout > Seconds(0) && timeout <= kLongestTimeout)) {
    throw ConfigError(
        fmt::format("timeout: out of range ({} s); it must be more than 0 and at most {} s, for "
                    "example 60 s",
                    timeout.count(), kLongestTimeout.count()));
  }
  timeout_ = timeout;
}

void Transport::check(int peer, Tag tag, bool any_allowed) const {
  if (failure_) std::rethrow_exception(failure_);
  const bool known = (peer >= 0 && peer < size_ && peer != rank_) ||
                     (any_allowed && size_ > 1 && peer == kAnyRank);
  if (!known) {
    throw std::logic_error(
        fmt::format("rank {} of {}: invalid peer (rank {})", rank_, size_, peer));
  }
  // Wrappers use the range above kTagLimit for their own messages.
  if (static_cast<std::uint32_t>(tag) >= 2 * kTagLimit) {
    throw std::logic_error(fmt::format("tag: too large ({}; at most {})",
                                       static_cast<std::uint32_t>(tag), 2 * kTagLimit - 1));
  }
}

template <class Call>
auto Transport::guard(const Pending& operation, Call call) {
  const Seconds start = now();
  try {
    return call();
  } catch (const DeadlinePassed& late) {
    fail_deadline(operation, late.bytes_done, start);
  } catch (const PeerLost& lost) {
    fail_lost(operation, lost, start);
  } catch (const WrongSize& message) {
    fail_size(operation, message);
  } catch (const std::exception&) {  // from a transport that this one wraps, or a bug
    fail(std::current_exception());
  }
}

Pending Transport::post_send(int to, Tag tag, Bytes message) {
  check(to, tag, false);
  Pending operation{Pending::Kind::send, Fit::exact, tag, to, message.size(), 0};
  operation.ticket = guard(operation, [&] { return do_post_send(to, tag, message); });
  return operation;
}

Pending Transport::post_recv(int from, Tag tag, MutBytes into, Fit fit) {
  check(from, tag, true);
  Pending operation{Pending::Kind::receive, fit, tag, from, into.size(), 0};
  operation.ticket = guard(operation, [&] { return do_post_recv(from, tag, into, fit); });
  return operation;
}

Received Transport::wait(const Pending& operation) {
  if (failure_) std::rethrow_exception(failure_);
  const Received received = guard(operation, [&] {
    Received got = do_wait(operation, timeout_);
    if (operation.kind == Pending::Kind::send) return Received{rank_, operation.bytes};
    if (operation.fit == Fit::exact && got.bytes != operation.bytes) {
      throw WrongSize{got.from, got.bytes};
    }
    return got;
  });
  count(operation, received);
  return received;
}

void Transport::fail(std::exception_ptr failure) {
  failure_ = std::move(failure);
  do_cancel();
  std::rethrow_exception(failure_);
}

void Transport::fail_deadline(const Pending& operation, std::size_t bytes_done, Seconds start) {
  ErrorFields fields = facts(*this, operation, operation.peer, bytes_done, start);
  fields.remedy = Remedy::raise_timeout;
  const std::string text =
      fmt::format("{}: no progress for {} while {} ({})", name(rank_), readable(timeout_),
                  describe(operation), progress(operation, bytes_done, start));
  fail(std::make_exception_ptr(
      TransportError(TransportError::Kind::deadline, text, std::move(fields))));
}

void Transport::fail_lost(const Pending& operation, const PeerLost& lost, Seconds start) {
  ErrorFields fields = facts(*this, operation, lost.peer, lost.bytes_done, start);
  const bool known = lost.peer != kNoRank;
  const bool itself = lost.peer == rank_;  // it was stopped or busy for longer than the timeout
  if (itself) fields.remedy = Remedy::raise_timeout;
  const std::string what =
      itself ? "given up by its peers" : fmt::format("lost {}", known ? name(lost.peer) : "a peer");
  const std::string hint = itself  ? ""
                           : known ? fmt::format("; see the output of rank {}", lost.peer)
                                   : "; see the output of each rank";
  const std::string text =
      fmt::format("{}: {} while {} ({}): {}{}", name(rank_), what, describe(operation),
                  progress(operation, lost.bytes_done, start), without_period(lost.reason), hint);
  fail(
      std::make_exception_ptr(TransportError(TransportError::Kind::lost, text, std::move(fields))));
}

void Transport::fail_size(const Pending& operation, const WrongSize& message) {
  ErrorFields fields = facts(*this, operation, message.from);
  fields.bytes_done = message.bytes;
  fields.remedy = Remedy::match_options;
  const std::string text = fmt::format(
      "{}: wrong message size while {} ({} sent {}, {}{} expected); all ranks must run the same "
      "version, model and options",
      name(rank_), describe(operation), name(message.from), readable(message.bytes),
      operation.fit == Fit::at_most ? "at most " : "", readable(operation.bytes));
  fail(std::make_exception_ptr(WireError(text, std::move(fields))));
}

void Transport::count(const Pending& operation, const Received& received) noexcept {
  if (operation.kind == Pending::Kind::send) {
    traffic_->bytes_sent += operation.bytes;
    traffic_->messages_sent += 1;
  } else {
    traffic_->bytes_received += received.bytes;
    traffic_->messages_received += 1;
  }
}

std::string Transport::name(int rank) const {
  if (rank == kAnyRank) return "any rank";
  return fmt::format("rank {} ({})", rank, host(rank));
}

std::string Transport::describe(const Pending& operation) const {
  const bool sending = operation.kind == Pending::Kind::send;
  return fmt::format("{} {} {}", sending ? "sending" : "receiving", sending ? "to" : "from",
                     name(operation.peer));
}

std::string Transport::progress(const Pending& operation, std::size_t bytes_done,
                                Seconds start) const {
  return fmt::format("waited {}, {} of {}{} done", readable(now() - start), readable(bytes_done),
                     operation.fit == Fit::at_most ? "at most " : "", readable(operation.bytes));
}

void Transport::send(int to, Tag tag, Bytes message) { wait(post_send(to, tag, message)); }

Received Transport::recv(int from, Tag tag, MutBytes into) {
  return wait(post_recv(from, tag, into, Fit::at_most));
}

Received Transport::exchange(int to, Bytes out, int from, MutBytes in, Tag tag) {
  check(to, tag, false);  // before `in` is posted, so that an invalid call leaves nothing posted
  const Pending incoming = post_recv(from, tag, in, Fit::at_most);
  const Pending outgoing = post_send(to, tag, out);
  const Received received = wait(incoming);
  wait(outgoing);
  return received;
}

std::unique_ptr<Transport> Transport::lane() {
  if (failure_) std::rethrow_exception(failure_);
  return do_lane();
}

std::unique_ptr<Transport> Transport::clone_handle() {
  if (failure_) std::rethrow_exception(failure_);
  return do_clone_handle();
}

std::unique_ptr<Task> Transport::launch(std::function<void()> work) {
  return runtime_.launch(std::move(work));
}

MutBytes Transport::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return MutBytes(scratch_).first(bytes);
}

}  // namespace thinwire
