// What the simulated workers of one run share: messages on their way, and who waits for whom.
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

// A posted send or receive. `transfer` is what it waits for: a send has it from the start, a
// receive from its match on.
struct Operation : Posted {
  int peer = kAnyRank;
  int receiver = kOver;  // whose message matcher it goes through
  bool matched = false;
  Transfer* transfer = nullptr;
  Received received;
  simgrid::s4u::Semaphore* blocked = nullptr;  // where its actor waits
  std::size_t place = 0;                       // among the blocked operations of the group

  static constexpr int kOver = -1;
};

// Messages of one (lane, from, to) follow one another as on a connection.
struct Stream {
  Transfer* first = nullptr;  // the one whose bytes flow
  Transfer* last = nullptr;
};

// The bytes of one message. Belongs to its send, its receive and the network, whoever needs it
// longest.
struct Transfer {
  Group* group = nullptr;
  std::uint32_t ticket = 0;
  int holders = 0;
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;
  Operation* send = nullptr;     // null once over
  Operation* receive = nullptr;  // null until matched, and once over
  Stream* stream = nullptr;
  Transfer* next = nullptr;  // in the stream
  bool has_left = false;
  Seconds left_at{0};
  simgrid::s4u::CommPtr flow;  // kept until the next use: SimGrid ends it after telling us
};

// Keeps to the rules in sim.cpp. Actors run one at a time and give way only where they call SimGrid
// (in_kernel, block, wake, pause), so nothing here needs a lock.
class Group {
 public:
  struct Lost {
    int peer;
    std::string reason;
  };

  Group(const Stage& stage, const Network& network);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void post_send(Operation& operation, int to);
  void post_receive(Operation& operation, int receiver);

  // Blocks the calling actor on `semaphore`. True when done, false when the deadline passed; throws
  // Lost. The operation is over afterwards.
  bool wait(Operation& operation, simgrid::s4u::Semaphore& semaphore, Seconds timeout);
  // Ends an operation whose memory is about to go away. Lets no other actor run.
  void cancel(Operation& operation) noexcept;

  // The rank has ended, by an error if `death` is given.
  void leave(int rank, const std::optional<std::string>& death);
  int present() const noexcept { return present_; }

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
  // Until woken. For at most that long, without end if negative; true if that has passed.
  bool block(Operation& operation, simgrid::s4u::Semaphore& semaphore, double seconds);
  static void wake(Operation* operation);
  std::optional<Lost> loss(const Operation& operation) const;

  Stage stage_;
  Network network_;
  std::vector<MessageMatcher<Operation>> boxes_;  // by receiving rank
  std::unordered_map<std::uint64_t, Stream> streams_;
  TicketPool<Transfer> transfers_;
  std::vector<Operation*> blocked_;
  std::vector<bool> gone_;
  int present_;
  std::optional<Lost> dead_;
};

}  // namespace thinwire::transport::sim
