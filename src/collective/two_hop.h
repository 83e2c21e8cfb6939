// An all-reduce in two hops, for data whose sums are wider than the summands: every rank sends each
// other rank its summands, narrow, of the share that the other owns; the owner adds them up and
// sends the sums, wide, to all. This takes fewer bytes than a ring, where every hop carries sums,
// and P - 1 messages at a time.
#pragma once

#include <vector>

#include "thinwire/collective.h"

namespace thinwire::collective {

// The data of one rank. Shares are cut into pieces, so that one piece is in flight while a rank
// computes another. All ranks must return the same sizes. The methods are called on the thread that
// calls run().
class TwoHop {
 public:
  virtual ~TwoHop() = default;

  // Return how many bytes the summands and the sums of a piece take.
  virtual std::size_t narrow_bytes(int owner, std::size_t piece) const = 0;
  virtual std::size_t wide_bytes(int owner, std::size_t piece) const = 0;

  // Writes the summands of this rank for a piece of another rank.
  virtual void give(int owner, std::size_t piece, MutBytes narrow) = 0;
  // Add up a piece of this rank's own share: begin_sum starts with the summands of this rank, add
  // adds those of another, end_sum writes the sums.
  virtual void begin_sum(std::size_t piece) = 0;
  virtual void add(std::size_t piece, Bytes narrow) = 0;
  virtual void end_sum(std::size_t piece, MutBytes wide) = 0;
  // Receives the sums of a piece of any share. give() or begin_sum() was called for it before.
  virtual void take(int owner, std::size_t piece, Bytes wide) = 0;
};

// Runs exchanges, and keeps its memory between them; one thread at a time may use it. The buffers
// are aligned to 8 bytes if all sizes are multiples of 8.
class TwoHopExchange {
 public:
  // Called by all ranks together, with the same number of pieces. Throws TransportError if another
  // rank fails.
  void run(Transport& wire, std::size_t pieces, TwoHop& data);

 private:
  struct Message {
    MutBytes bytes;
    Pending operation;
  };
  // The messages of one kind: for each piece, one per rank.
  using Messages = std::vector<Message>;

  void lay_out(Transport& wire, std::size_t pieces, const TwoHop& data);
  void post_receives();
  void give(std::size_t piece);
  void sum(std::size_t piece);
  void take(std::size_t piece);
  // Calls visit(rank) for all other ranks, beginning with the next one, so that not all ranks send
  // to the same one first.
  template <class Visit>
  void for_others(Visit visit);
  Message& at(Messages& messages, std::size_t piece, int rank) const;

  Transport* wire_ = nullptr;
  TwoHop* data_ = nullptr;
  std::size_t pieces_ = 0;
  Payload memory_;
  // Summands that are sent and received, and sums: received, or sent if the share is this rank's.
  Messages given_, got_, sums_;
  std::vector<Pending> returns_;  // the sends of sums
};

}  // namespace thinwire::collective
