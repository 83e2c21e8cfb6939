// The state that the simulated workers of one run share: the messages in flight, and the operations
// that wait for them.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "thinwire/types.h"
#include "transport/message_matcher.h"
#include "transport/sim/sim_platform.h"
#include "transport/ticket_pool.h"

namespace thinwire::transport::sim {

class Group;
struct Transfer;

// A posted send or receive. It is complete when its `transfer` is. A send has a transfer from the
// start, a receive when it is matched.
struct Operation : Posted {
  int peer = kAnyRank;
  int receiver = kOver;  // the rank whose message matcher has it, or kOver
  bool matched = false;
  Transfer* transfer = nullptr;
  Received received;
  simgrid::s4u::Semaphore* blocked = nullptr;  // the semaphore on which its actor waits, if any
  std::size_t place = 0;                       // its index in Group::blocked_

  static constexpr int kOver = -1;
};

// Messages of one (lane, from, to) follow one another as on a connection.
struct Stream {
  Transfer* first = nullptr;  // its bytes are flowing
  Transfer* last = nullptr;
};

// The bytes of one message. Its send, its receive and the network hold a reference; the last of
// them to end releases it.
struct Transfer {
  Group* group = nullptr;
  std::uint32_t ticket = 0;
  int holders = 0;
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  Operation* send = nullptr;     // null once that operation is over
  Operation* receive = nullptr;  // null before the match, and once that operation is over
  Stream* stream = nullptr;
  Transfer* next = nullptr;  // in the stream
  bool has_left = false;
  Seconds left_at{0};
  simgrid::s4u::CommPtr flow;  // kept until the next use: SimGrid uses it after flow_ended()
};

// Implements the rules that sim.cpp describes. Actors run one at a time and give way only where
// they call SimGrid (in_kernel, block, wake, pause), so nothing here needs a lock.
class Group {
 public:
  struct Lost {
    int peer;
    std::string reason;
  };

  Group(const Stage& stage, const Network& network);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Post an operation of the calling actor. The operation must not be moved or destroyed before
  // wait() or cancel() has ended it.
  void post_send(Operation& operation, int to);
  void post_receive(Operation& operation, int receiver);

  // Blocks the calling actor on `semaphore` until the operation is complete. Returns false if its
  // deadline passes first, and throws Lost if its peer is lost. In all cases the operation has
  // ended afterwards.
  bool wait(Operation& operation, simgrid::s4u::Semaphore& semaphore, Seconds timeout);
  // Ends an operation whose memory is about to be freed. No other actor runs during this call.
  void cancel(Operation& operation) noexcept;

  // Records that the rank has ended: by the error `death` if that is given, else successfully.
  void leave(int rank, const std::optional<std::string>& death);
  // Returns how many ranks have not left.
  int present() const noexcept { return present_; }

  // Returns the virtual time since the start of this run.
  Seconds now() const { return Seconds(simgrid::s4u::Engine::get_clock()) - stage_.start; }
  simgrid::s4u::Host* host(int rank) const { return stage_.hosts[static_cast<std::size_t>(rank)]; }

 private:
  Stream& stream(int lane, int from, int to);
  void match(Operation& send, Operation& receive);
  void enqueue(Stream& stream, Transfer& transfer);
  void advance(Stream& stream);
  void start_flow(Transfer& transfer);
  void left(Transfer& transfer);
  static void flow_ended(const simgrid::s4u::Activity& activity);
  void end(Operation& operation) noexcept;
  void release(Transfer& transfer) noexcept;
  // Blocks the calling actor until wake(), for at most `seconds`, or without limit if `seconds` is
  // negative. Returns true if the time has passed.
  bool block(Operation& operation, simgrid::s4u::Semaphore& semaphore, double seconds);
  static void wake(Operation* operation);
  std::optional<Lost> loss(const Operation& operation) const;

  Stage stage_;
  Network network_;
  std::vector<MessageMatcher<Operation>> matchers_;  // by receiving rank
  std::unordered_map<std::uint64_t, Stream> streams_;
  TicketPool<Transfer> transfers_;
  std::vector<Operation*> blocked_;
  std::vector<bool> gone_;
  int present_;
  std::optional<Lost> dead_;
};

}  // namespace thinwire::transport::sim
