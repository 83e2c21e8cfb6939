// Workers are actors of SimGrid: time is virtual, and a star of full-duplex links connects them.
//
// The network. Each worker has a link of its own with options.network's bandwidth in each
// direction. Flows that share a link share it fairly (max-min), by SimGrid's model CM02 without
// cross traffic. SimGrid's defaults for wide-area TCP do not apply: its links have no latency here,
// so there is no latency factor, no window limit (bandwidth <= gamma / RTT) and no bias by RTT, and
// CM02 takes no share of the bandwidth for headers. This backend adds the latency: a message of n
// bytes that shares its links with no other arrives latency + 8 n / bandwidth after it was posted.
// Without a network, or with unlimited bandwidth, bytes take no time. A byte that represents
// several (options.payload_scale) takes the time of all of them.
//
// A message departs when its send is posted, whether or not the receive is. Messages with the same
// (from, to, lane) follow one another without gaps, as on a connection; different streams share the
// links. The bytes are copied when both sides are posted. A send is complete when it is matched and
// its last byte has left, a receive one latency later. An unmatched operation has its deadline in
// virtual time, so a silent peer costs no real time. An operation whose bytes are in flight has no
// deadline, because the simulated network never stalls.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "transport/backends.h"
#include "transport/exception_text.h"
#include "transport/payload_scale.h"
#include "transport/sim/sim_group.h"

namespace thinwire::transport {
namespace {

namespace s4u = simgrid::s4u;
using sim::ExceptionsAside;
using sim::Group;
using sim::Operation;

// Runs `code` and returns what it threw. The exception by which SimGrid itself ends an actor passes
// through.
template <class Code>
std::exception_ptr thrown_by(const Code& code) {
  try {
    code();
  } catch (const simgrid::ForcefulKillException&) {
    throw;
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

class SimTask final : public Task {
 public:
  // `actors` counts the actors that run; it must outlive the actor of this task.
  SimTask(std::function<void()> work, int& actors) : state_(std::make_shared<State>()) {
    if (actors >= sim::kMaxActors) {
      throw Error(fmt::format("sim: cannot start another task ({} workers and tasks; at most {})",
                              actors, sim::kMaxActors));
    }
    ++actors;
    const ExceptionsAside aside;
    s4u::Actor::create("task", s4u::this_actor::get_host(),
                       [state = state_, work = std::move(work), &actors] {
                         state->thrown = thrown_by(work);
                         --actors;
                         state->finished = true;
                         state->end->release();
                       });
  }
  ~SimTask() override { wait(); }

  bool finished() const noexcept override { return state_->finished; }
  void join() override {
    wait();
    if (state_->thrown) std::rethrow_exception(std::exchange(state_->thrown, nullptr));
  }

 private:
  void wait() {
    if (state_->finished) return;
    const ExceptionsAside aside;
    state_->end->acquire();
  }

  struct State {
    bool finished = false;
    std::exception_ptr thrown;
    s4u::SemaphorePtr end = s4u::Semaphore::create(0);
  };
  std::shared_ptr<State> state_;  // shared with the actor, which may end later than this object
};

class SimEvent final : public Event {
 public:
  void notify() noexcept override {
    set_ = true;
    if (!std::exchange(waiting_, false)) return;
    // Other actors run during release(); the one that waits may destroy this event.
    const s4u::SemaphorePtr semaphore = semaphore_;
    const ExceptionsAside aside;
    semaphore->release();
  }
  bool wait(Seconds timeout) override {
    if (!(timeout > Seconds(0))) return std::exchange(set_, false);
    const Seconds deadline = now() + std::min(timeout, Transport::kLongestTimeout);
    bool late = false;
    // A notify() at exactly the time of an earlier deadline has left the semaphore at 1. Then
    // block() returns early, and the loop waits again.
    while (!set_ && !late) late = block(deadline - now());
    return std::exchange(set_, false);
  }

 private:
  static Seconds now() { return Seconds(s4u::Engine::get_clock()); }
  // Returns true if the time has passed. The rounding of virtual times may make `remaining` a
  // little less than 0, which SimGrid takes as infinite.
  bool block(Seconds remaining) {
    if (remaining <= Seconds(0)) return true;
    waiting_ = true;
    const ExceptionsAside aside;
    const bool late = semaphore_->acquire_timeout(remaining.count());
    waiting_ = false;
    return late;
  }

  // Actors run one at a time and give way only in calls of SimGrid, so the flags need no lock.
  bool set_ = false;
  bool waiting_ = false;  // an actor is blocked on the semaphore and was not released yet
  s4u::SemaphorePtr semaphore_ = s4u::Semaphore::create(0);
};

class SimRuntime final : public ScaledRuntime {
 public:
  SimRuntime(const Group& group, int workers, double payload_scale)
      : group_(group), actors_(workers), payload_scale_(payload_scale) {}

  Seconds now() const override { return group_.now(); }
  void sleep(Seconds duration) override { sim::pause(duration); }
  bool simulated() const override { return true; }
  double payload_scale() const noexcept override { return payload_scale_; }
  std::unique_ptr<Task> launch(std::function<void()> work) override {
    return std::make_unique<SimTask>(std::move(work), actors_);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<SimEvent>(); }

 private:
  const Group& group_;
  int actors_;  // workers, also those that have ended, and tasks that run
  double payload_scale_;
};

class SimTransport final : public Transport {
 public:
  SimTransport(Group& group, Runtime& runtime, int rank, std::vector<std::string> hosts)
      : Transport(rank, std::move(hosts), runtime),
        group_(group),
        next_lane_(std::make_shared<int>(1)) {}
  SimTransport(const SimTransport& first, int lane)
      : Transport(first, first.runtime()),
        group_(first.group_),
        next_lane_(first.next_lane_),
        lane_(lane) {}
  ~SimTransport() override { do_cancel(); }

 private:
  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    const std::uint32_t ticket = operations_.acquire();
    static_cast<Posted&>(operations_[ticket]) = {lane_, tag, rank(), message, {}};
    group_.post_send(operations_[ticket], to);
    return ticket;
  }
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit) override {
    const std::uint32_t ticket = operations_.acquire();
    static_cast<Posted&>(operations_[ticket]) = {lane_, tag, from, {}, into};
    group_.post_receive(operations_[ticket], rank());
    return ticket;
  }

  Received do_wait(const Pending& pending, Seconds timeout) override {
    Operation& operation = operations_[pending.ticket];
    try {
      if (!group_.wait(operation, *turn_, timeout)) throw DeadlinePassed{};
    } catch (const Group::Lost& lost) {
      throw PeerLost{lost.peer, lost.reason};
    }
    const Received received = operation.received;
    operations_.release(pending.ticket);
    if (pending.kind == Pending::Kind::receive && received.bytes > pending.bytes) {
      throw WrongSize{received.from, received.bytes};
    }
    return received;
  }

  void do_cancel() noexcept override {
    for (Operation& operation : operations_) group_.cancel(operation);
  }

  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<SimTransport>(*this, (*next_lane_)++);
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<SimTransport>(*this, lane_);
  }

  Group& group_;
  std::shared_ptr<int> next_lane_;  // shared by the lanes of this rank
  int lane_ = 0;
  TicketPool<Operation> operations_;
  s4u::SemaphorePtr turn_ = s4u::Semaphore::create(0);  // on which the actor of this lane waits
};

}  // namespace

void run_sim(const BackendOptions& options, const Worker& worker) {
  if (options.size > sim::kMaxActors) {
    throw ConfigError(
        fmt::format("sim: too many workers ({}; at most {})", options.size, sim::kMaxActors));
  }
  const Network network = options.network.value_or(Network{});
  const std::vector<std::string> hosts(static_cast<std::size_t>(options.size), "simulated");
  std::optional<Group> group;
  std::optional<SimRuntime> runtime;
  std::exception_ptr first;

  const auto work = [&](int rank) {
    const std::exception_ptr thrown = thrown_by([&] {
      SimTransport transport(*group, *runtime, rank, hosts);
      transport.set_timeout(options.timeout);
      worker(transport);
    });
    if (thrown && !first) first = thrown;
    group->leave(rank, thrown ? std::optional(exception_text(thrown)) : std::nullopt);
  };
  const double bytes_per_second = network.bits_per_second / 8 / options.payload_scale;
  sim::simulate(options.size, bytes_per_second, [&](const sim::Stage& stage) {
    group.emplace(stage, network);
    runtime.emplace(*group, options.size, options.payload_scale);
    for (int rank = 0; rank < options.size; ++rank) {
      s4u::Actor::create("worker", group->host(rank), [&work, rank] { work(rank); });
    }
  });
  if (first) std::rethrow_exception(first);
  if (group->present() > 0) {
    throw std::logic_error(fmt::format("sim: deadlock ({} of {} workers wait without a deadline)",
                                       group->present(), options.size));
  }
}

}  // namespace thinwire::transport
