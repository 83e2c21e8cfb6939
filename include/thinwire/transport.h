// Sends bytes from rank to rank: one interface over threads, Gloo, MPI and a simulator.
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

// Labels a stream of messages between two ranks. Callers may use all values below kTagLimit;
// collectives use the highest of them (kCollectiveTags in collective.h).
enum class Tag : std::uint32_t {};
inline constexpr std::uint32_t kTagLimit = 1u << 16;

// Stands for any rank where a receive names its sender. It has the value of kNoRank, so that a
// failed receive from any rank blames no rank.
inline constexpr int kAnyRank = kNoRank;

// Whether a receive knows the length of the message. An exact receive lets the bytes flow as soon
// as it is posted; a receive of unknown length first has to be informed of the length.
enum class Fit { exact, at_most };

// The result of a receive.
struct Received {
  int from = kAnyRank;
  std::size_t bytes = 0;
};

// A posted operation, which the caller passes to Transport::wait() exactly once. Until then the
// caller must not free the message's memory, nor change it, nor read it if it is being received.
struct Pending {
  enum class Kind : std::uint8_t { send, receive };
  Kind kind = Kind::send;
  Fit fit = Fit::exact;
  Tag tag{};
  int peer = kAnyRank;
  std::size_t bytes = 0;     // of the message, or of the room for it
  std::uint32_t ticket = 0;  // by which the transport identifies the operation
};

// Counters of one rank, over all its lanes. They count payload as the caller passed it; framing
// below the transport (TCP, Ethernet) is not included. Any thread may read them.
struct Traffic {
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> messages_sent{0};
  std::atomic<std::uint64_t> messages_received{0};
};

// Work that runs concurrently with its caller: a thread on real transports, an actor of the
// simulator on `sim`. Only the task that launched it may call its methods and destroy it.
class TW_EXPORT Task {
 public:
  // Waits until the work has returned, and discards what it threw.
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
  // Transport::kLongestTimeout counts as that one. Only one task may wait at a time. Does not
  // throw.
  virtual bool wait(Seconds timeout) = 0;
};

// Time and concurrency: real on real transports, virtual on the simulator. All methods may be
// called by any task of this runtime at any time, and throw nothing unless they say so.
class TW_EXPORT Runtime {
 public:
  // No task or event of this runtime may exist any more.
  virtual ~Runtime() = default;
  // Returns the time since a moment that stays the same as long as this runtime exists.
  virtual Seconds now() const = 0;
  // Returns after `duration`; at once if it is 0 or less.
  virtual void sleep(Seconds duration) = 0;
  // Returns whether time is virtual: then computing takes no time, only sleeps and messages do.
  virtual bool simulated() const { return false; }
  // Starts `work` as a task, which the caller owns. Throws std::system_error if the system cannot
  // start a thread.
  virtual std::unique_ptr<Task> launch(std::function<void()> work) = 0;
  // Returns a new event whose flag is not set; the caller owns it. Only tasks of this runtime may
  // use it, and the runtime must outlive it.
  virtual std::unique_ptr<Event> make_event() = 0;
};

// Returns the runtime of this process, which uses the steady clock and std::thread. It lives until
// the process ends. May be called from any thread at any time; does not throw.
TW_EXPORT Runtime& system_runtime();

// The endpoint of one rank in a group. A Transport is used by one thread at a time; another thread
// uses its own lane().
//
// Messages with the same (from, to, tag, lane) arrive in the order sent. A send may wait until the
// receiver has posted its receive (rendezvous semantics), so two ranks that both send before they
// receive can deadlock: post both operations, or use exchange(). Every wait has a deadline.
//
// Errors: a call throws TransportError if a peer is lost or silent for longer than the timeout,
// WireError if a message has the wrong size, and std::logic_error if the rank or the tag does not
// exist. After a TransportError or WireError the lane is unusable: it releases all memory that was
// passed to it, and every later call throws the same error.
class TW_EXPORT Transport {
 public:
  // Ends this lane or handle, and releases the memory of operations that are still posted. Called
  // by the thread that used it.
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The next four return what was fixed when the group was formed. Any thread may call them at any
  // time, also after an error. The transport owns the text.

  // Returns the number of this rank, from 0.
  int rank() const noexcept { return rank_; }
  // Returns the number of ranks in the group, at least 1.
  int size() const noexcept { return size_; }
  // Returns the name of the machine of a rank. Throws std::out_of_range if there is no such rank.
  const std::string& host(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }
  // Returns the name of the machine of every rank, in rank order.
  const std::vector<std::string>& hosts() const noexcept { return hosts_; }
  // Returns the counters of this rank, which all its lanes share and own. Any thread may call it.
  const Traffic& traffic() const noexcept { return *traffic_; }

  // Sets how long a peer may be silent before an operation of this lane fails. Long messages travel
  // in pieces, each with this deadline, so that a slow link is not mistaken for a dead one. A lane
  // that is made later starts with the same value. Throws ConfigError unless the timeout is more
  // than 0 and at most kLongestTimeout.
  static constexpr Seconds kLongestTimeout{1e6};
  void set_timeout(Seconds timeout);
  // Returns the timeout of this lane. Only the thread that uses the lane may call it.
  Seconds timeout() const noexcept { return timeout_; }

  // The next functions communicate and throw as the class comment says.

  // Starts to send a message and returns at once; wait() completes it. The caller owns the memory
  // and must keep it valid, see Pending.
  Pending post_send(int to, Tag tag, Bytes message);
  // Starts to receive a message and returns at once; wait() completes it. `from` may be kAnyRank.
  // With Fit::exact the message must have exactly into.size() bytes, else at most as many. The
  // caller owns the memory and must keep it valid, see Pending.
  Pending post_recv(int from, Tag tag, MutBytes into, Fit fit = Fit::exact);
  // Waits until an operation of this lane is complete. Returns the sender and the length of a
  // received message; for a send, this rank and the bytes sent.
  Received wait(const Pending& operation);

  // Sends a message and returns when its memory may be reused.
  void send(int to, Tag tag, Bytes message);
  // Receives a message of at most into.size() bytes; `from` may be kAnyRank. Throws WireError if
  // the message is longer.
  Received recv(int from, Tag tag, MutBytes into);
  // Sends and receives at the same time, which cannot deadlock if both ranks call it. `in` may be
  // longer than the received message.
  Received exchange(int to, Bytes out, int from, MutBytes in, Tag tag);

  // Returns another stream between the same ranks, for another thread. All ranks must call it in
  // the same order: the n-th call on each rank returns the n-th lane. The caller owns the lane,
  // which may outlive this object. Throws TransportError if the lane cannot be made, Error if the
  // transport has no more of them (gloo makes 32,768 in the life of a group), and the error that
  // ended this lane if there was one.
  std::unique_ptr<Transport> lane();
  // Returns a second handle on this lane, for a second thread: one thread can wait for a message
  // from any rank while the other sends. Only one of the handles may receive. One rank alone may
  // call it. The caller owns the handle. Throws the error that ended this lane if there was one.
  std::unique_ptr<Transport> clone_handle();

  // Gives up the group: announces to all ranks that this rank has failed, with the reason, so that
  // every operation of every lane and rank ends with a TransportError. Any thread may call it, on a
  // handle of its own (clone_handle()), while other threads wait. Only `gloo` does so; elsewhere it
  // does nothing, and operations end by their deadlines.
  void abort(const std::string& reason) noexcept { do_abort(reason); }

  // Returns the time of the runtime's clock or, on an imitated network, of the clock of that
  // network. May be called at any time, also after an error, by the thread that uses this lane.
  virtual Seconds now() const { return runtime_.now(); }
  // Does the same as Runtime::sleep(). Any task of the runtime may call it at any time.
  void sleep(Seconds duration) { runtime_.sleep(duration); }
  // Does the same as Runtime::launch(). Any task of the runtime may call it at any time.
  std::unique_ptr<Task> launch(std::function<void()> work);
  // Returns the runtime of the group, which outlives all its transports. Any thread may call it.
  Runtime& runtime() const noexcept { return runtime_; }

  // Returns scratch memory for collectives on this lane. It grows and is reused, so that a second
  // call of the same size allocates nothing. The transport owns it; it is valid until the next
  // call. Only the thread that uses the lane may call it. Throws std::bad_alloc without memory.
  MutBytes scratch(std::size_t bytes);

 protected:
  // What a backend throws when an operation fails. The public functions turn it into an error that
  // names the ranks, the operation, the bytes done and the time waited.
  struct DeadlinePassed {
    std::size_t bytes_done = 0;
  };
  struct PeerLost {
    int peer = kNoRank;
    std::string reason;
    std::size_t bytes_done = 0;
  };
  struct WrongSize {  // longer than the room; wait() itself checks for shorter messages
    int from = kNoRank;
    std::size_t bytes = 0;
  };

  // Makes the first lane of a rank in a group of hosts.size() ranks. The runtime must outlive it.
  Transport(int rank, std::vector<std::string> hosts, Runtime& runtime);
  // Makes a further lane of `first`, with the same traffic counters and timeout.
  explicit Transport(const Transport& first, Runtime& runtime);

 private:
  // What a backend implements. The public functions have checked the arguments. Each may throw
  // DeadlinePassed, PeerLost or WrongSize.
  virtual std::uint32_t do_post_send(int to, Tag tag, Bytes message) = 0;
  virtual std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) = 0;
  virtual Received do_wait(const Pending& operation, Seconds timeout) = 0;
  // Called after a failure: releases the memory of every operation that is still posted.
  virtual void do_cancel() noexcept = 0;
  virtual std::unique_ptr<Transport> do_lane() = 0;
  virtual std::unique_ptr<Transport> do_clone_handle() = 0;
  virtual void do_abort(const std::string&) noexcept {}

  void check(int peer, Tag tag, bool any_allowed) const;
  // Calls the backend. If it throws, this lane ends, with an error message for people.
  template <class Call>
  auto guard(const Pending& operation, Call call);
  [[noreturn]] void fail(std::exception_ptr failure);
  [[noreturn]] void fail_deadline(const Pending& operation, std::size_t bytes_done, Seconds start);
  [[noreturn]] void fail_lost(const Pending& operation, const PeerLost& lost, Seconds start);
  [[noreturn]] void fail_size(const Pending& operation, const WrongSize& message);
  void count(const Pending& operation, const Received& received) noexcept;
  std::string describe(const Pending& operation) const;
  // Returns text such as "waited 1.5 s, 3 bytes of 10 bytes done".
  std::string progress(const Pending& operation, std::size_t bytes_done, Seconds start) const;
  std::string name(int rank) const;  // "rank 2 (hostname)"

  int rank_;
  int size_;
  std::vector<std::string> hosts_;
  Runtime& runtime_;
  Seconds timeout_{60};
  // The lanes of a rank share it, and each of them may outlive the others.
  std::shared_ptr<Traffic> traffic_;
  Payload scratch_;
  std::exception_ptr failure_;  // the error that ended this lane; every later call throws it
};

}  // namespace thinwire
