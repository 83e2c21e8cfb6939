// One lane over MPI: a communicator of its own. See mpi.cpp for how a process joins and leaves.
#pragma once

// The C++ bindings, which MPI-3 removed, would cause compiler warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <memory>

#include "thinwire/transport.h"
#include "transport/ticket_pool.h"

namespace thinwire::transport {

// Returns MPI's own text of a return code, such as "MPI_ERR_TRUNCATE: message truncated".
std::string mpi_text(int code);

// Waits by spinning first, then by yielding, then by short sleeps. MPI makes progress only while it
// is called. But often there are more ranks than cores, and then a rank that spins takes the core
// from the peer for which it waits.
class Backoff {
 public:
  void reset() noexcept { turn_ = 0; }
  void pause() noexcept;

 private:
  unsigned turn_ = 0;
};

// A call that all ranks must make, and the facts for the error if some do not.
struct Collective {
  std::string_view what;  // "rank 1 (hostname): opening a lane"
  TransportError::Kind kind = TransportError::Kind::deadline;
  Seconds timeout{0};
  int rank = kNoRank;                   // this rank
  std::string_view operation = "lane";  // as in ErrorFields

  void check(int code) const;  // throws unless the code is MPI_SUCCESS
  [[noreturn]] void fail(std::string_view reason) const;
};
// Polls a collective until it is complete and calls `meanwhile` in between. Throws after the
// timeout. Then the memory to which the request writes must stay valid, so `stuck` is set (see
// MpiHealth).
void finish(MPI_Request& request, const Collective& collective, std::atomic<bool>& stuck,
            const std::function<void()>& meanwhile = {});

// Returns a duplicate of `parent` that returns errors. Called by all ranks together.
MPI_Comm duplicate(MPI_Comm parent, const Collective& collective, std::atomic<bool>& stuck,
                   const std::function<void()>& meanwhile = {});

// Tags are below 2 * kTagLimit (transport.cpp); the MPI standard guarantees only 15 bits.
inline constexpr int kHighestMpiTag = static_cast<int>(2 * kTagLimit) - 1;

// The state that the lanes of a process share.
struct MpiHealth {
  // Set if a lane has memory that MPI still uses. Then no lane calls MPI again, because any call
  // might write to that memory.
  std::atomic<bool> stuck{false};
  // The rank for which a lane last timed out. Lanes that wait for kLongestTimeout rely on it,
  // because MPI reports no peer that has stopped.
  std::atomic<int> silent{kNoRank};
};

class MpiTransport final : public Transport {
 public:
  // Takes ownership of the communicator.
  MpiTransport(MPI_Comm comm, int rank, std::vector<std::string> hosts, MpiHealth& health);
  ~MpiTransport() override;

 private:
  struct Operation {
    enum class State : std::uint8_t {
      idle,
      matching,  // a receive whose last piece has not arrived
      moving,    // MPI has all pieces
      complete,
      wrong_size,
      lost,
    };
    State state = State::idle;
    Pending::Kind kind = Pending::Kind::send;
    Fit fit = Fit::exact;
    bool queued = false;  // matching, but after another receive
    int peer = kAnyRank;
    int tag = 0;
    Bytes out;
    MutBytes in;
    std::size_t matched = 0;          // bytes of the pieces that were matched
    std::size_t done = 0;             // bytes of the pieces that are complete
    std::vector<MPI_Request> pieces;  // the message in order
    std::size_t next = 0;             // the first piece that is not complete
    int code = MPI_SUCCESS;           // the MPI error, if lost

    bool failed() const { return state == State::wrong_size || state == State::lost; }
  };
  using State = Operation::State;

  // The communicator of a lane, and whether it can still be freed.
  struct Line {
    Line(MPI_Comm comm, MpiHealth& health) : comm(comm), health(health) {}
    ~Line();
    MPI_Comm comm;
    MpiHealth& health;
    std::atomic<bool> failed{false};
  };

  MpiTransport(const MpiTransport& first, std::shared_ptr<Line> line);

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override;
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override;
  Received do_wait(const Pending& pending, Seconds timeout) override;
  void do_cancel() noexcept override;
  std::unique_ptr<Transport> do_lane() override;
  std::unique_ptr<Transport> do_clone_handle() override;

  std::uint32_t begin(Pending::Kind kind, int peer, Tag tag);
  bool match_all();
  bool match(Operation& operation);
  const Operation* blocker(const Operation& operation, std::size_t place);
  static void inherit(Operation& operation, const Operation& older);
  void advance(Operation& operation);
  bool lose(Operation& operation, int code);
  [[noreturn]] void raise(const Operation& operation);
  void let_end(Operation& operation, Seconds deadline, Backoff& backoff) noexcept;

  std::shared_ptr<Line> line_;  // shared by the handles of a lane
  MpiHealth& health_;
  TicketPool<Operation> operations_;
  std::vector<std::uint32_t> matching_;  // receives that still match pieces, oldest first
};

}  // namespace thinwire::transport
