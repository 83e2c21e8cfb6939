// Collectives: free functions that every rank of a transport calls together, in the same order and
// with the same sizes, on one thread per lane. docs/algorithms.md gives the rounds and bytes of
// each.
//
// The result is the same, bit for bit, on every rank, transport and run. The caller owns the memory
// that it passes and must keep it valid until the call returns. After the largest call on a lane,
// later calls allocate nothing. All throw TransportError if another rank fails or is silent for
// longer than the timeout, and WireError if it sends a message that does not belong to the call;
// the data is then in an unspecified state.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "thinwire/export.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// Collectives use the tags from here to kTagLimit, one per operation, so that ranks that call
// different collectives get an error and never mix up messages. Callers use lower tags for their
// own messages.
inline constexpr std::uint32_t kCollectiveTags = kTagLimit - 256;

// The algorithm of an all-reduce. `automatic` chooses the cheaper one by the size of the data and
// the number of ranks only, so that all ranks agree.
enum class Route {
  automatic,
  ring,      // 2 (P-1)/P of the data per rank, pipelined in chunks: for large data
  doubling,  // log2 P rounds with all of the data: for small data
};

// Replaces data[i] by the sum over all ranks. Integer sums wrap; 16-bit floats are rounded at each
// hop.
TW_EXPORT void allreduce_sum(Transport& wire, MutFloats data, Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<Bf16> data, Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<Fp16> data, Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<std::uint8_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<std::uint16_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<std::uint32_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_sum(Transport& wire, std::span<std::uint64_t> data,
                             Route route = Route::automatic);

// Replaces data[i] by the mean over all ranks. Returns false, on all ranks, if a result is not
// finite. The division and the check overlap with the transfer of messages.
TW_EXPORT bool allreduce_mean(Transport& wire, MutFloats data, Route route = Route::automatic);

// Replace data[i] by the largest, the smallest or the bitwise and of the values of all ranks.
TW_EXPORT void allreduce_max(Transport& wire, std::span<std::uint32_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_max(Transport& wire, std::span<std::uint64_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_min(Transport& wire, std::span<std::uint32_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_min(Transport& wire, std::span<std::uint64_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_and(Transport& wire, std::span<std::uint32_t> data,
                             Route route = Route::automatic);
TW_EXPORT void allreduce_and(Transport& wire, std::span<std::uint64_t> data,
                             Route route = Route::automatic);

// Returns the payload bytes that `rank` of `size` sends in an all-reduce of numel elements. May be
// called by one rank alone, on any thread.
TW_EXPORT std::uint64_t allreduce_bytes(std::size_t numel, int rank, int size,
                                        Route route = Route::automatic,
                                        std::size_t element_bytes = sizeof(float));

// The elements [begin, end) that a rank owns when n elements are divided evenly. The first ranks
// own one element more if n is not a multiple of the number of ranks.
struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;

  // Returns the number of elements. May be called from any thread.
  std::size_t size() const noexcept { return end - begin; }
};
// Returns the share of `rank`. May be called by one rank alone, on any thread.
TW_EXPORT Share share_of(std::size_t n, int rank, int size) noexcept;

// Replaces data[share_of(n, rank)] by the sum over all ranks. The rest of data is left in an
// unspecified state.
TW_EXPORT void reduce_scatter_sum(Transport& wire, MutFloats data);

// Fills `all` with size() pieces of equal length in rank order. `mine` is copied to its place in
// `all`, unless it is that place.
TW_EXPORT void allgather(Transport& wire, Bytes mine, MutBytes all);

// The longest piece that the next function accepts unless the caller gives another limit: 4 GiB.
inline constexpr std::size_t kLongestPiece = std::size_t{1} << 32;

// Gathers pieces of any length: `all` becomes their concatenation, and lengths[r] the length of the
// piece of rank r. Throws WireError if a rank announces a piece of more than max_bytes. `mine` must
// not be inside `all`.
TW_EXPORT void allgather(Transport& wire, Bytes mine, Payload& all,
                         std::span<std::uint64_t> lengths, std::size_t max_bytes = kLongestPiece);

// Copies the data of `root` to every rank.
TW_EXPORT void broadcast(Transport& wire, MutBytes data, int root = 0);

// Returns after every rank has called it.
TW_EXPORT void barrier(Transport& wire);

namespace collective {

// The steps of a merge, independent of the type of its values. Only ButterflyMerge implements it,
// and only merge_butterfly() calls it, on the thread that called ButterflyMerge::run(). All
// functions throw what the functions of the MergeRule throw. Messages are valid during the call.
class MergeSteps {
 public:
  // Appends this rank's value to `out`, which is empty.
  virtual void encode(Payload& out) = 0;
  // Replaces this rank's value by the one in the message, which is the result of the merge.
  virtual void replace(Bytes message) = 0;
  // Combines this rank's value with the one in the message, which has the contributions of lower
  // ranks if `lower` is true, else of higher ranks.
  virtual void combine(Bytes message, bool lower) = 0;

 protected:
  ~MergeSteps() = default;
};
// Runs the rounds of the merge. Only ButterflyMerge::run() calls it, whose errors it throws.
// `message` is scratch memory of the caller for the messages that are sent.
TW_EXPORT void merge_butterfly(Transport& wire, Payload& message, std::size_t max_bytes,
                               MergeSteps& steps);

}  // namespace collective

// The functions that a merge needs for its values. They are called on the thread that calls run().
// They may throw; if decode or combine throws a WireError, the name of the rank that sent the
// message is added to it.
template <class Rule, class Value>
concept MergeRule = requires(Rule& rule, const Value& value, Value& out, Payload& bytes, Bytes in) {
  // Appends the value to `bytes`, which is empty.
  rule.encode(value, bytes);
  // Replaces `out` by the value in the message. The bytes are valid during the call.
  rule.decode(in, out);
  // Replaces `out` by the combination of two values. The first value holds the contributions of a
  // range of ranks, the second those of the range that follows it. The result must depend on the
  // two values only; the operation need not be associative or commutative. `out` is a third object,
  // which may hold an old value.
  rule.combine(value, value, out);
};

// Combines the values of all ranks pairwise (recursive doubling): log2 P rounds, in which all ranks
// compute, and two more if P is not a power of two. A value is encoded once for each message and
// decoded once by its receiver. Keeps its memory between calls; one thread at a time may use it.
template <class Value>
class ButterflyMerge {
 public:
  // Called by all ranks together. `value` is this rank's contribution; afterwards it is the result,
  // which is the same on every rank. Throws std::logic_error if a value of this rank takes more
  // than max_bytes, and WireError if another rank sends more.
  template <MergeRule<Value> Rule>
  void run(Transport& wire, Value& value, std::size_t max_bytes, Rule& rule) {
    Steps<Rule> steps(*this, value, rule);
    collective::merge_butterfly(wire, message_, max_bytes, steps);
  }

 private:
  template <class Rule>
  class Steps final : public collective::MergeSteps {
   public:
    Steps(ButterflyMerge& merge, Value& value, Rule& rule)
        : merge_(merge), value_(value), rule_(rule) {}

    void encode(Payload& out) override { rule_.encode(std::as_const(value_), out); }
    void replace(Bytes message) override { rule_.decode(message, value_); }
    void combine(Bytes message, bool lower) override {
      rule_.decode(message, merge_.other_);
      const Value& own = value_;
      const Value& other = merge_.other_;
      rule_.combine(lower ? other : own, lower ? own : other, merge_.combined_);
      std::swap(value_, merge_.combined_);
    }

   private:
    ButterflyMerge& merge_;
    Value& value_;
    Rule& rule_;
  };

  Payload message_;
  Value other_{}, combined_{};
};

}  // namespace thinwire
