// An all-reduce in two hops, for data whose sums are wider than what is added: every rank sends
// each other rank, narrow, the share that the other owns, and the owner sends the sums, wide, to
// all. Fewer bytes than a ring, whose every hop has to carry sums; P - 1 messages at a time.
#pragma once

#include <vector>

#include "thinwire/collective.h"

namespace thinwire::collective {

// The data of one rank. Shares are cut into pieces, so that the wire is busy with one while a rank
// works on another. All ranks must agree on the sizes.
class TwoHop {
 public:
  virtual ~TwoHop() = default;

  virtual std::size_t narrow_bytes(int owner, std::size_t piece) const = 0;
  virtual std::size_t wide_bytes(int owner, std::size_t piece) const = 0;

  // Writes what this rank adds to a piece of another.
  virtual void give(int owner, std::size_t piece, MutBytes narrow) = 0;
  // A piece of its own: starts with what this rank adds, then takes what the others gave, and
  // writes the sums.
  virtual void begin_sum(std::size_t piece) = 0;
  virtual void add(std::size_t piece, Bytes narrow) = 0;
  virtual void end_sum(std::size_t piece, MutBytes wide) = 0;
  // The sums of a piece, also of this rank's own. `give` or `begin_sum` came before.
  virtual void take(int owner, std::size_t piece, Bytes wide) = 0;
};

// Runs exchanges, and keeps its memory between them. Buffers are aligned to 8 bytes if all sizes
// are multiples of 8.
class TwoHopExchange {
 public:
  void run(Transport& wire, std::size_t pieces, TwoHop& data);

 private:
  struct Message {
    MutBytes bytes;
    Pending operation;
  };
  // The messages of one kind: per piece, one for each rank.
  using Messages = std::vector<Message>;

  void lay_out(Transport& wire, std::size_t pieces, const TwoHop& data);
  void post_receives();
  void give(std::size_t piece);
  void sum(std::size_t piece);
  void take(std::size_t piece);
  // Calls visit(rank) for all others, beginning behind this one: not all call the same rank first.
  template <class Visit>
  void for_others(Visit visit);
  Message& at(Messages& messages, std::size_t piece, int rank) const;

  Transport* wire_ = nullptr;
  TwoHop* data_ = nullptr;
  std::size_t pieces_ = 0;
  Payload memory_;
  Messages given_, got_, sums_;   // narrow out, narrow in, wide in (and out, of this rank's own)
  std::vector<Pending> returns_;  // sends of sums
};

}  // namespace thinwire::collective
