// A thin wire without root: imitates, around any transport, workers that each hang on a full-duplex
// link of given bandwidth and latency. The bytes travel at once; what is imitated is when they
// count as sent and as arrived. An envelope ahead of each message tells the receiver when it is
// due, by the clock that all ranks of a machine share.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <fstream>
#include <mutex>

#include "thinwire/engines.h"
#include "transport/ticket_pool.h"

namespace thinwire {
namespace {

struct Envelope {
  std::uint64_t bytes = 0;
  double due = 0;  // now() at which the last byte arrives, if the receiver's link is idle
};

// When this rank's link is free again, in each direction; shared by its lanes.
class Link {
 public:
  explicit Link(const Network& network) : network_(network) {}

  Seconds sent_at(Seconds now, std::size_t bytes) { return occupy(send_free_, now, bytes); }
  Seconds arrived_at(Seconds due, std::size_t bytes) {
    // The last byte cannot come before it is due, and occupies the link just before.
    return occupy(receive_free_, due - network_.transfer_time(bytes), bytes);
  }
  Seconds latency() const { return network_.latency; }

 private:
  // Bytes that a link left idle may still carry, in link time: lets a thread that the scheduler
  // woke late catch up, so that many short messages do not add up its delays.
  static constexpr Seconds kBurst{20e-6};

  Seconds occupy(Seconds& free, Seconds start, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    free = std::max(free, start - kBurst) + network_.transfer_time(bytes);
    return free;
  }

  Network network_;
  std::mutex mutex_;
  Seconds send_free_{0};
  Seconds receive_free_{0};
};

class Shaped final : public Transport {
 public:
  Shaped(std::unique_ptr<Transport> inner, const Network& network)
      : Transport(inner->rank(), inner->hosts(), inner->runtime()),
        inner_(std::move(inner)),
        link_(std::make_shared<Link>(network)) {
    set_timeout(inner_->timeout());
  }
  Shaped(const Shaped& first, std::unique_ptr<Transport> inner)
      : Transport(first, first.runtime()), inner_(std::move(inner)), link_(first.link_) {}

 private:
  struct Operation {
    Envelope envelope;
    Pending envelope_operation;
    std::optional<Pending> body_operation;  // empty until a receive knows the length
    MutBytes into;
    Seconds sent_at{0};
  };

  static Tag envelope_tag(Tag tag) { return Tag{static_cast<std::uint32_t>(tag) + kTagLimit}; }
  static MutBytes raw(Envelope& envelope) {
    return std::as_writable_bytes(std::span(&envelope, 1));
  }

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    operation.sent_at = link_->sent_at(now(), message.size());
    operation.envelope = {message.size(), (operation.sent_at + link_->latency()).count()};
    operation.envelope_operation =
        inner_->post_send(to, envelope_tag(tag), raw(operation.envelope));
    operation.body_operation = inner_->post_send(to, tag, message);
    return ticket;
  }

  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    operation.into = into;
    operation.envelope_operation =
        inner_->post_recv(from, envelope_tag(tag), raw(operation.envelope));
    operation.body_operation.reset();
    if (fit == Fit::exact && from != kAnyRank) {
      operation.body_operation = inner_->post_recv(from, tag, into);
    }
    return ticket;
  }

  Received do_wait(const Pending& pending, Seconds timeout) override {
    inner_->set_timeout(timeout);
    Operation& operation = operations_[pending.ticket];
    const Received received = pending.kind == Pending::Kind::send
                                  ? finish_send(operation, pending)
                                  : finish_receive(operation, pending);
    operations_.release(pending.ticket);
    return received;
  }

  Received finish_send(Operation& operation, const Pending& pending) {
    inner_->wait(operation.envelope_operation);
    inner_->wait(*operation.body_operation);
    sleep_until(operation.sent_at);
    return {rank(), pending.bytes};
  }

  Received finish_receive(Operation& operation, const Pending& pending) {
    const int from = inner_->wait(operation.envelope_operation).from;
    const auto bytes = static_cast<std::size_t>(operation.envelope.bytes);
    if (bytes > pending.bytes || (pending.fit == Fit::exact && bytes != pending.bytes)) {
      throw WrongSize{from, bytes};
    }
    if (!operation.body_operation) {
      operation.body_operation = inner_->post_recv(from, pending.tag, operation.into.first(bytes));
    }
    inner_->wait(*operation.body_operation);
    sleep_until(link_->arrived_at(Seconds(operation.envelope.due), bytes));
    return {from, bytes};
  }

  void sleep_until(Seconds when) {
    // The kernel may wake a thread 50 us late by default, half a LAN's latency.
    static thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    static_cast<void>(precise);
    const Seconds left = when - now();
    if (left > Seconds(0)) sleep(left);
  }

  void do_cancel() noexcept override { inner_.reset(); }

  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<Shaped>(*this, inner_->lane());
  }

  TicketPool<Operation> operations_;  // before inner_, which may still point to its envelopes
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Link> link_;
};

// Ranks share a clock if the same boot of the same machine runs them.
std::uint64_t boot_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return std::hash<std::string>{}(text);
}

void require_one_machine(Transport& wire) {
  const std::uint64_t mine = boot_identity();
  const Bytes out = std::as_bytes(std::span(&mine, 1));
  for (int peer = 0; peer < wire.size(); ++peer) {
    if (peer == wire.rank()) continue;
    std::uint64_t theirs = 0;
    wire.exchange(peer, out, peer, std::as_writable_bytes(std::span(&theirs, 1)), Tag{0});
    if (theirs != mine) {
      throw ConfigError(fmt::format(
          "--network imitates a network between workers of one machine, but rank {} runs on {} and "
          "rank {} on {}. Leave it out: between machines the real network is used.",
          wire.rank(), wire.host(wire.rank()), peer, wire.host(peer)));
    }
  }
}

}  // namespace

std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, const Network& network) {
  require_one_machine(*inner);
  return std::make_unique<Shaped>(std::move(inner), network);
}

}  // namespace thinwire
