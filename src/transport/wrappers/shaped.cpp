// Imitates a slow network around any transport, without root: each worker has a full-duplex link of
// given bandwidth and latency. The bytes are transferred at once; the wrapper delays the moment at
// which an operation completes. Each message is accompanied by an envelope with the time at which
// it is due at the receiver, by the clock that all ranks of a machine share. Headers of the
// imitated network take no time.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>

#include "transport/backends.h"
#include "transport/name_sender.h"
#include "transport/ticket_pool.h"
#include "transport/wrappers/link.h"

namespace thinwire::transport {
namespace {

struct Envelope {
  std::uint64_t bytes = 0;
  double due = 0;  // the time at which the last byte arrives if the receiver's link is idle
};

// The link of one rank, shared by its lanes.
class WorkerLink {
 public:
  explicit WorkerLink(const Network& network) : network_(network) {}

  // Returns when the last byte leaves this rank.
  Seconds sent_at(Seconds now, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return outgoing_.carry(now, network_.transfer_time(bytes));
  }
  Seconds due_at(Seconds sent) const { return sent + network_.latency; }
  // Returns when the last byte has arrived. The bytes of a message arrive while they are sent, so
  // they use the link from one transfer time before they are due.
  Seconds arrived_at(Seconds due, std::size_t bytes) {
    const Seconds duration = network_.transfer_time(bytes);
    const std::lock_guard lock(mutex_);
    return incoming_.carry(due - duration, duration);
  }

 private:
  const Network network_;
  std::mutex mutex_;
  Link outgoing_, incoming_;
};

class Shaped final : public Transport {
 public:
  Shaped(std::unique_ptr<Transport> inner, const Network& network)
      : Transport(inner->rank(), inner->hosts(), inner->runtime()),
        inner_(std::move(inner)),
        link_(std::make_shared<WorkerLink>(network)) {
    set_timeout(inner_->timeout());
  }
  Shaped(const Shaped& first, std::unique_ptr<Transport> inner)
      : Transport(first, first.runtime()), inner_(std::move(inner)), link_(first.link_) {}

  // Returns the time that this lane would have if its last wait had ended exactly on time. The next
  // message starts at this time, so that late wake-ups, here and at peers, do not add up over the
  // rounds of a collective; they take a few dozen microseconds each on an idle machine,
  // milliseconds on a busy one. Times by this clock are those of the imitated network and never
  // shorter than it allows. The clock is behind the real one by at most kForgiven and never runs
  // backwards.
  Seconds now() const override { return runtime().now() - late_; }

 private:
  struct Operation {
    Envelope envelope;
    std::optional<Pending> envelope_operation;  // empty once it was waited for
    std::optional<Pending> body_operation;      // empty while a receive is closed
    int from = kAnyRank;  // of a receive from any rank: known once the envelope is read
    Seconds sent_at{0};   // of a send; the fields below are of a receive
    MutBytes into;
    Fit fit = Fit::exact;
    Tag tag{};
    int accepts = kAnyRank;
  };

  static Tag envelope_tag(Tag tag) { return Tag{static_cast<std::uint32_t>(tag) + kTagLimit}; }
  static MutBytes raw(Envelope& envelope) {
    return std::as_writable_bytes(std::span(&envelope, 1));
  }

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    operation.from = rank();
    operation.sent_at = link_->sent_at(now(), message.size());
    operation.envelope = {message.size(), link_->due_at(operation.sent_at).count()};
    operation.envelope_operation =
        inner_->post_send(to, envelope_tag(tag), raw(operation.envelope));
    operation.body_operation = inner_->post_send(to, tag, message);
    return ticket;
  }

  // Envelope and body are two messages, and both must go to the same receive. The inner transport
  // serves receives in the order posted, so it is enough to post both at once. A receive from any
  // rank cannot do this, because the two might come from different ranks: its body is not posted
  // until the envelope has arrived and the sender is known. Such a receive is called closed. A
  // receive that competes with an older closed one is closed as well.
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    operation.into = into;
    operation.fit = fit;
    operation.tag = tag;
    operation.accepts = operation.from = from;
    operation.envelope_operation =
        inner_->post_recv(from, envelope_tag(tag), raw(operation.envelope));
    operation.body_operation.reset();
    const bool contested = std::any_of(closed_.begin(), closed_.end(), [&](std::uint32_t older) {
      return competes(operations_[older], from, tag);
    });
    if (from == kAnyRank || contested) {
      closed_.push_back(ticket);
    } else {
      operation.body_operation = inner_->post_recv(from, tag, into, fit);
    }
    return ticket;
  }

  Received do_wait(const Pending& pending, Seconds timeout) override {
    inner_->set_timeout(timeout);
    pending.kind == Pending::Kind::send ? finish_send(pending.ticket)
                                        : finish_receive(pending.ticket);
    const Operation& operation = operations_[pending.ticket];
    const Received received{operation.from, static_cast<std::size_t>(operation.envelope.bytes)};
    operations_.release(pending.ticket);
    return received;
  }

  void finish_send(std::uint32_t ticket) {
    const Operation& operation = operations_[ticket];
    inner_->wait(*operation.envelope_operation);
    inner_->wait(*operation.body_operation);
    resume_at(std::max(now(), operation.sent_at));
  }

  void finish_receive(std::uint32_t ticket) {
    Operation& operation = operations_[ticket];
    const Seconds asked = now();
    operation.body_operation ? read_envelope(operation) : open(ticket);
    inner_->wait(*operation.body_operation);
    name_sender(*this, operation.from, [&] { check_due(operation.envelope); });
    const Seconds arrived = link_->arrived_at(Seconds(operation.envelope.due),
                                              static_cast<std::size_t>(operation.envelope.bytes));
    // The imitated message arrives exactly when it is due, even if the real one took longer or its
    // sender was late.
    resume_at(std::max(asked, arrived));
  }

  // Throws WireError if the due time, which decides how long this rank sleeps, is absurd.
  void check_due(const Envelope& envelope) const {
    const double ahead = envelope.due - runtime().now().count();
    if (std::isfinite(ahead) && Seconds(ahead) < kLongestDelay) return;
    throw WireError(fmt::format("due time: out of range ({} s from now)", ahead));
  }

  void read_envelope(Operation& operation) {
    if (!operation.envelope_operation) return;
    operation.from = inner_->wait(*operation.envelope_operation).from;
    operation.envelope_operation.reset();
    const auto bytes = static_cast<std::size_t>(operation.envelope.bytes);
    const std::size_t room = operation.into.size();
    if (bytes > room || (operation.fit == Fit::exact && bytes != room)) {
      throw WrongSize{operation.from, bytes};
    }
  }

  // Posts the body of a closed receive.
  void open(std::uint32_t ticket) {
    Operation& operation = operations_[ticket];
    open_older_rivals(ticket);
    read_envelope(operation);  // now the sender is known
    open_older_rivals(ticket);
    std::erase(closed_, ticket);
    const auto bytes = static_cast<std::size_t>(operation.envelope.bytes);
    operation.body_operation =
        inner_->post_recv(operation.from, operation.tag, operation.into.first(bytes));
  }

  // Opens the older closed receives that accept the same senders: they get their messages before
  // this one, so their bodies must be posted first. Waiting for their envelopes causes no
  // additional delay.
  void open_older_rivals(std::uint32_t ticket) {
    const Operation& operation = operations_[ticket];
    while (true) {
      const auto self = std::find(closed_.begin(), closed_.end(), ticket);
      const auto rival = std::find_if(closed_.begin(), self, [&](std::uint32_t older) {
        return competes(operations_[older], operation.from, operation.tag);
      });
      if (rival == self) return;
      open(*rival);
    }
  }

  static bool competes(const Operation& receive, int from, Tag tag) {
    return receive.tag == tag && (receive.accepts == kAnyRank || receive.accepts == from);
  }

  void resume_at(Seconds when) {
    // By default the kernel may wake a thread 50 us late, which is half the latency of a LAN.
    static thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    static_cast<void>(precise);
    const Seconds left = when - runtime().now();
    if (left > Seconds(0)) sleep(left);
    late_ = std::clamp(runtime().now() - when, Seconds(0), kForgiven);
  }

  // The longest plausible time until a message is due, including the queue at its sender: a day.
  static constexpr Seconds kLongestDelay{86'400};

  // The longest delay of a wake-up that is compensated. A longer one is not caused by the
  // scheduler, but by a machine that was suspended.
  static constexpr Seconds kForgiven{20e-3};

  void do_cancel() noexcept override { inner_.reset(); }

  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<Shaped>(*this, inner_->lane());
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<Shaped>(*this, inner_->clone_handle());
  }
  void do_abort(const std::string& reason) noexcept override {
    if (inner_) inner_->abort(reason);
  }

  // Declared before inner_, which may still point to its envelopes.
  TicketPool<Operation> operations_;
  std::vector<std::uint32_t> closed_;  // in the order posted
  Seconds late_{0};                    // how late the last wait ended
  std::unique_ptr<Transport> inner_;
  // The lanes of a rank share it, and each of them may outlive the others.
  std::shared_ptr<WorkerLink> link_;
};

// Returns a hash of the boot of this machine. Ranks with the same boot share a clock.
std::uint64_t boot_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return std::hash<std::string>{}(text);
}

void require_one_machine(Transport& wire) {
  const std::uint64_t mine = boot_identity();
  const Bytes out = std::as_bytes(std::span(&mine, 1));
  int stranger = wire.rank();
  for (int peer = 0; peer < wire.size(); ++peer) {
    if (peer == wire.rank()) continue;
    std::uint64_t theirs = 0;
    wire.exchange(peer, out, peer, std::as_writable_bytes(std::span(&theirs, 1)), Tag{0});
    if (theirs != mine) stranger = peer;
  }
  // The error is thrown only after all exchanges, so that no rank waits for one that has thrown.
  if (stranger == wire.rank()) return;
  ErrorFields fields;
  fields.rank = wire.rank();
  fields.peer = stranger;
  fields.host = wire.host(stranger);
  fields.operation = "join";
  fields.remedy = Remedy::drop_network;
  throw ConfigError(
      fmt::format(
          "imitated network: all workers must run on one machine (rank {} runs on {}, rank {} "
          "on {}); between machines the real network is used",
          wire.rank(), wire.host(wire.rank()), stranger, wire.host(stranger)),
      std::move(fields));
}

}  // namespace

std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, const Network& network) {
  require_one_machine(*inner);
  return std::make_unique<Shaped>(std::move(inner), network);
}

}  // namespace thinwire::transport
