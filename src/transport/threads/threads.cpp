// Ranks are threads of one process. A message is copied once, by the side that posts second.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "transport/backends.h"
#include "transport/exception_text.h"
#include "transport/message_matcher.h"
#include "transport/ticket_pool.h"

namespace thinwire::transport {
namespace {

struct Operation : Posted {
  enum class State { idle, waiting, copying, done, wrong_size };
  State state = State::idle;
  int owner = 0;  // the rank whose thread waits for it
  Received received;
};

// The state that the ranks share. One mutex guards all of it, but is not held during the copy of a
// message.
class Group {
 public:
  explicit Group(int size) : matchers_(static_cast<std::size_t>(size)), wake_(matchers_.size()) {}

  void post(Operation& operation, int receiver) {
    std::unique_lock lock(mutex_);
    MessageMatcher<Operation>& matcher = matchers_[static_cast<std::size_t>(receiver)];
    const bool sending = operation.owner != receiver;
    operation.state = Operation::State::waiting;
    Operation* partner = sending ? matcher.post_send(operation) : matcher.post_receive(operation);
    if (partner == nullptr) return;
    sending ? deliver(operation, *partner, lock) : deliver(*partner, operation, lock);
  }

  // Returns true when the operation is complete, false if the deadline passed; throws Lost if a
  // peer is lost. Unless it returns true, the caller must cancel the operation.
  struct Lost {
    int peer;
    std::string reason;
  };
  bool wait(Operation& operation, int peer, Seconds timeout) {
    std::unique_lock lock(mutex_);
    auto& wake = wake_[static_cast<std::size_t>(operation.owner)];
    wake.wait_for(lock, timeout, [&] { return over(operation) || loss(peer).has_value(); });
    finish_copy(operation, lock);
    if (over(operation)) return true;
    if (const auto lost = loss(peer)) throw *lost;
    return false;
  }

  // Ends the operations of a lane, whose memory is about to be freed. All unmatched operations are
  // withdrawn under one lock. If they were withdrawn one by one, a peer that posts in between could
  // receive the second message of a stream in place of the first.
  void cancel(TicketPool<Operation>& operations) {
    std::unique_lock lock(mutex_);
    for (Operation& operation : operations) {
      if (operation.state == Operation::State::waiting) withdraw(operation);
    }
    for (Operation& operation : operations) finish_copy(operation, lock);
  }

  void leave(int rank, std::optional<std::string> death) {
    const std::lock_guard lock(mutex_);
    if (death && !dead_) dead_ = Lost{rank, *death};
    left_.push_back(rank);
    for (auto& wake : wake_) wake.notify_all();
  }

 private:
  static bool over(const Operation& o) {
    return o.state == Operation::State::done || o.state == Operation::State::wrong_size;
  }

  void deliver(Operation& send, Operation& receive, std::unique_lock<std::mutex>& lock) {
    send.state = receive.state = Operation::State::copying;
    receive.received = {send.from, send.out.size()};
    const bool fits = send.out.size() <= receive.in.size();
    lock.unlock();
    if (fits && !send.out.empty()) {
      std::memcpy(receive.in.data(), send.out.data(), send.out.size());
    }
    lock.lock();
    send.state = Operation::State::done;
    receive.state = fits ? Operation::State::done : Operation::State::wrong_size;
    wake_[static_cast<std::size_t>(send.owner)].notify_all();
    wake_[static_cast<std::size_t>(receive.owner)].notify_all();
  }

  void withdraw(Operation& operation) {
    for (auto& matcher : matchers_) {
      if (matcher.withdraw(operation)) break;
    }
    operation.state = Operation::State::idle;
  }

  // Waits for a copy in progress, which cannot be cancelled and ends soon.
  void finish_copy(Operation& operation, std::unique_lock<std::mutex>& lock) {
    wake_[static_cast<std::size_t>(operation.owner)].wait(
        lock, [&] { return operation.state != Operation::State::copying; });
  }

  // If a rank has failed, every wait ends. If ranks have ended without an error, only the waits end
  // that no other rank can complete.
  std::optional<Lost> loss(int peer) const {
    if (dead_) return dead_;
    if (peer == kAnyRank) {
      if (left_.size() + 1 < matchers_.size()) return std::nullopt;
      return Lost{kNoRank, "all other ranks have already finished"};
    }
    if (std::find(left_.begin(), left_.end(), peer) == left_.end()) return std::nullopt;
    return Lost{peer, "it has already finished"};
  }

  std::mutex mutex_;
  std::vector<MessageMatcher<Operation>> matchers_;  // by receiving rank
  std::vector<std::condition_variable> wake_;
  std::optional<Lost> dead_;
  std::vector<int> left_;
};

class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Group> group, int rank, std::vector<std::string> hosts)
      : Transport(rank, std::move(hosts), system_runtime()),
        group_(std::move(group)),
        next_lane_(std::make_shared<int>(1)) {}
  ThreadsTransport(const ThreadsTransport& first, int lane)
      : Transport(first, system_runtime()),
        group_(first.group_),
        next_lane_(first.next_lane_),
        lane_(lane) {}
  ~ThreadsTransport() override { do_cancel(); }

 private:
  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    return post({lane_, tag, rank(), message, {}}, to);
  }
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit) override {
    return post({lane_, tag, from, {}, into}, rank());
  }
  std::uint32_t post(const Posted& posted, int receiver) {
    const std::uint32_t ticket = operations_.acquire();
    Operation& operation = operations_[ticket];
    static_cast<Posted&>(operation) = posted;
    operation.owner = rank();
    group_->post(operation, receiver);
    return ticket;
  }

  Received do_wait(const Pending& pending, Seconds timeout) override {
    Operation& operation = operations_[pending.ticket];
    try {
      if (!group_->wait(operation, pending.peer, timeout)) throw DeadlinePassed{};
    } catch (const Group::Lost& lost) {
      throw PeerLost{lost.peer, lost.reason};
    }
    const auto state = std::exchange(operation.state, Operation::State::idle);
    const Received received = operation.received;
    operations_.release(pending.ticket);
    if (state == Operation::State::wrong_size) throw WrongSize{received.from, received.bytes};
    return received;
  }

  void do_cancel() noexcept override { group_->cancel(operations_); }

  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<ThreadsTransport>(*this, (*next_lane_)++);
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<ThreadsTransport>(*this, lane_);
  }

  std::shared_ptr<Group> group_;    // shared by all ranks
  std::shared_ptr<int> next_lane_;  // of all lanes of this rank
  int lane_ = 0;
  TicketPool<Operation> operations_;
};

}  // namespace

void run_threads(const BackendOptions& options, const Worker& worker) {
  const auto group = std::make_shared<Group>(options.size);
  const std::vector<std::string> hosts(static_cast<std::size_t>(options.size), "this process");
  std::mutex mutex;
  std::exception_ptr first;

  const auto work = [&](int rank) {
    std::optional<std::string> death;
    try {
      ThreadsTransport transport(group, rank, hosts);
      transport.set_timeout(options.timeout);
      worker(transport);
    } catch (...) {
      const std::lock_guard lock(mutex);
      death = exception_text(std::current_exception());
      if (!first) first = std::current_exception();
    }
    group->leave(rank, death);
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < options.size; ++rank) threads.emplace_back(work, rank);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace thinwire::transport
