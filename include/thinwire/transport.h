// How bytes get from rank to rank: one interface over threads, Gloo, MPI and a simulator.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/export.h"
#include "thinwire/types.h"

namespace thinwire {

// Labels a stream of messages between two ranks. Values below kTagLimit are free for use.
enum class Tag : std::uint32_t {};
inline constexpr std::uint32_t kTagLimit = 1u << 16;

inline constexpr int kAnyRank = -1;

// Whether a receive knows the length of what will come. An exact receive lets the bytes flow as
// soon as it is posted; one of unknown length first has to learn it.
enum class Fit { exact, at_most };

struct Received {
  int from = kAnyRank;
  std::size_t bytes = 0;
};

// A posted operation, to be given to Transport::wait exactly once. Its memory belongs to the
// transport until then.
struct Pending {
  enum class Kind : std::uint8_t { send, receive };
  Kind kind = Kind::send;
  Fit fit = Fit::exact;
  Tag tag{};
  int peer = kAnyRank;
  std::size_t bytes = 0;     // length of the message, or of the room for it
  std::uint32_t ticket = 0;  // the transport's own name for the operation
};

// Bytes and messages of one rank, all lanes together. Payload as handed to the transport; framing
// below it (TCP, Ethernet) is not included.
struct Traffic {
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> messages_sent{0};
  std::atomic<std::uint64_t> messages_received{0};
};

// Work that runs next to its caller: a thread on real transports, an actor of the simulator on
// `sim`. Its methods are for the task that launched it.
class TW_EXPORT Task {
 public:
  // Waits until the work has returned, and drops what it threw.
  virtual ~Task() = default;
  // Returns whether the work has returned or thrown. Never waits.
  virtual bool finished() const noexcept = 0;
  // Waits until the work has returned. The first call rethrows what the work threw.
  virtual void join() = 0;
};

// A flag for which one task waits and which other tasks set, in real or in virtual time.
//
// The flag is sticky and resets itself: notify() before wait() is not lost, several calls of
// notify() before one wait() count as one, and the wait() that sees the flag clears it. An event
// carries no data, so a waiter tests its own condition in a loop and waits while the condition is
// false; the notifier makes the condition true before it calls notify().
class TW_EXPORT Event {
 public:
  // No task may be waiting. The task whose wait() returned true may destroy the event at once, also
  // while that call of notify() has not returned yet.
  virtual ~Event() = default;
  // Sets the flag and wakes the task that waits. Every task of the runtime may call it, several at
  // once. It takes no (virtual) time and never blocks, but in a simulation the woken task may run
  // before it returns: the caller must not hold a mutex that the woken task locks.
  virtual void notify() noexcept = 0;
  // Waits until the flag is set, for at most `timeout`, and clears it. Returns true if the flag was
  // set, false if the time has passed; with a timeout of 0 or less it only looks. A timeout above
  // Transport::kLongestTimeout counts as that one. Only one task may wait at a time.
  virtual bool wait(Seconds timeout) = 0;
};

// Time and concurrency: real on real transports, virtual on the simulator. All methods may be
// called by any task of this runtime at any time.
class TW_EXPORT Runtime {
 public:
  virtual ~Runtime() = default;
  // Returns the time since a moment that stays the same as long as this runtime exists.
  virtual Seconds now() const = 0;
  // Returns after `duration`; at once if it is 0 or less.
  virtual void sleep(Seconds duration) = 0;
  // Returns whether time is virtual: then computing takes no time, only sleeps and messages do.
  virtual bool simulated() const { return false; }
  // Returns how many bytes one byte of payload stands for: more than one where a simulation uses a
  // smaller model in place of the real one.
  virtual double payload_scale() const { return 1; }
  // Starts `work` as a task. Throws if the system cannot start one.
  virtual std::unique_ptr<Task> launch(std::function<void()> work) = 0;
  // Returns a new event whose flag is not set. Only tasks of this runtime may use it, and the
  // runtime must outlive it.
  virtual std::unique_ptr<Event> make_event() = 0;
};
// Returns the runtime of this process, which uses the steady clock and std::thread.
Runtime& system_runtime();

// One Transport belongs to one thread at a time; another thread takes its own lane().
//
// Messages with the same (from, to, tag, lane) arrive in the order sent. A send may wait until the
// receiver asks for the message (rendezvous), so two ranks that send to each other before they
// receive can deadlock: post both, or use exchange. Every wait has a deadline.
class TW_EXPORT Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const std::string& host(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }
  const std::vector<std::string>& hosts() const noexcept { return hosts_; }
  const Traffic& traffic() const noexcept { return *traffic_; }

  // How long a peer may be silent before an operation fails. Long messages travel in pieces, each
  // with this deadline, so that a slow link is not mistaken for a dead one. ConfigError unless it
  // is more than 0 and at most kLongestTimeout.
  static constexpr Seconds kLongestTimeout{1e6};
  void set_timeout(Seconds timeout);
  Seconds timeout() const noexcept { return timeout_; }

  Pending post_send(int to, Tag tag, Bytes message);
  Pending post_recv(int from, Tag tag, MutBytes into, Fit fit = Fit::exact);
  // What a receive got; of a send, this rank and the bytes sent.
  Received wait(const Pending& operation);

  void send(int to, Tag tag, Bytes message);
  // At most into.size() bytes; from may be kAnyRank. WireError if the message does not fit.
  Received recv(int from, Tag tag, MutBytes into);
  // Sends and receives at once; the only safe swap. `in` may be larger than what comes.
  Received exchange(int to, Bytes out, int from, MutBytes in, Tag tag);

  // Another stream between the same ranks, for another thread. Collective: the n-th call on each
  // rank gives the n-th lane.
  std::unique_ptr<Transport> lane();
  // Another handle on this very lane, for a second thread: while one of them waits for whoever may
  // send, the other sends. Two handles must not both receive. Not collective.
  std::unique_ptr<Transport> clone_handle();

  // The runtime's clock; on an imitated network, the clock that network runs by.
  virtual Seconds now() const { return runtime_.now(); }
  void sleep(Seconds duration) { runtime_.sleep(duration); }
  std::unique_ptr<Task> launch(std::function<void()> work);
  Runtime& runtime() const noexcept { return runtime_; }
  // What so many bytes of payload stand for. Whoever chooses a way by the length of a message asks
  // for this one, so that a smaller model takes the ways of the whole.
  std::size_t represented_bytes(std::size_t bytes) const {
    return static_cast<std::size_t>(static_cast<double>(bytes) * runtime_.payload_scale());
  }

  // Memory for collectives on this lane: it grows and is reused, so that a second call allocates
  // nothing. Valid until the next call.
  MutBytes scratch(std::size_t bytes);

 protected:
  // What an engine throws when an operation fails; the shell adds who, what, how far, how long.
  struct DeadlinePassed {
    std::size_t bytes_done = 0;
  };
  struct PeerLost {
    int peer = kAnyRank;
    std::string reason;
    std::size_t bytes_done = 0;
  };
  struct WrongSize {  // more than fits; wait() itself notices less than an exact receive expects
    int from = kAnyRank;
    std::size_t bytes = 0;
  };

  Transport(int rank, std::vector<std::string> hosts, Runtime& runtime);
  // A further lane of `first`, sharing its traffic counters and timeout.
  explicit Transport(const Transport& first, Runtime& runtime);

 private:
  virtual std::uint32_t do_post_send(int to, Tag tag, Bytes message) = 0;
  virtual std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) = 0;
  virtual Received do_wait(const Pending& operation, Seconds timeout) = 0;
  // After a failure: lets go of the memory of every operation that is still posted.
  virtual void do_cancel() noexcept = 0;
  virtual std::unique_ptr<Transport> do_lane() = 0;
  virtual std::unique_ptr<Transport> do_clone_handle() = 0;

  void check(int peer, Tag tag, bool any_allowed) const;
  // Calls the engine; whatever it throws ends this lane, worded for people.
  template <class Call>
  auto guard(const Pending& operation, Call call);
  [[noreturn]] void fail(std::exception_ptr failure);
  [[noreturn]] void fail_deadline(const Pending& operation, std::size_t bytes_done, Seconds start);
  [[noreturn]] void fail_lost(const Pending& operation, const PeerLost& lost, Seconds start);
  [[noreturn]] void fail_size(const Pending& operation, const WrongSize& message);
  void count(const Pending& operation, const Received& received) noexcept;
  std::string describe(const Pending& operation) const;
  // "waited 1.5 s, 3 bytes of 10 bytes done"
  std::string progress(const Pending& operation, std::size_t bytes_done, Seconds start) const;
  std::string name(int rank) const;  // "rank 2 (hostname)"

  int rank_;
  int size_;
  std::vector<std::string> hosts_;
  Runtime& runtime_;
  Seconds timeout_{60};
  // Shared by the lanes of a rank, which may outlive one another.
  std::shared_ptr<Traffic> traffic_;
  Payload scratch_;
  std::exception_ptr failure_;  // what ended this lane; thrown again by every later call
};

}  // namespace thinwire
