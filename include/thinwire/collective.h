// Collectives: free functions that every rank of a transport calls together, in the same order and
// with the same sizes, on one thread per lane. docs/algorithms.md gives the rounds and bytes of
// each.
//
// The result is the same, bit for bit, on every rank, transport and run. Memory that a caller
// passes stays the caller's and must live until the call returns. Nothing is allocated once a lane
// has seen the largest call. All throw TransportError if another rank fails or does not answer in
// time, and WireError if it sends what does not belong to the call; the data is then in an
// unspecified state.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "thinwire/export.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// Collectives use the tags from here to kTagLimit, one per operation, so that ranks that call
// different ones fail rather than mix them up. Messages of your own must use lower tags.
inline constexpr std::uint32_t kCollectiveTags = kTagLimit - 256;

// The algorithm of an all-reduce. `automatic` picks the cheaper one from the size and the number of
// ranks alone, so that all ranks agree.
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

// Replaces data[i] by the mean over all ranks. Returns false, on all ranks alike, if a result is
// not finite. The division and the check happen while messages are on their way.
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

// The elements [begin, end) of n that a rank owns when n elements are divided evenly. The first
// ranks own one element more if n is no multiple of the number of ranks.
struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const noexcept { return end - begin; }
};
// Returns the share of `rank`. May be called by one rank alone, on any thread.
TW_EXPORT Share share_of(std::size_t n, int rank, int size) noexcept;

// Replaces data[share_of(n, rank)] by the sum over all ranks. The rest of data is left in an
// unspecified state.
TW_EXPORT void reduce_scatter_sum(Transport& wire, MutFloats data);

// Fills `all` with size() pieces of equal length in rank order. `mine` is copied to its place,
// unless it is there already.
TW_EXPORT void allgather(Transport& wire, Bytes mine, MutBytes all);

// Gathers pieces of any length: `all` becomes their concatenation and lengths[r] the length of rank
// r's. Throws WireError if a rank announces more than max_bytes. `mine` must not lie in `all`.
inline constexpr std::size_t kLongestPiece = std::size_t{1} << 32;
TW_EXPORT void allgather(Transport& wire, Bytes mine, Payload& all,
                         std::span<std::uint64_t> lengths, std::size_t max_bytes = kLongestPiece);

// Copies the data of `root` to every rank.
TW_EXPORT void broadcast(Transport& wire, MutBytes data, int root = 0);

// Returns on no rank before it was called on every rank.
TW_EXPORT void barrier(Transport& wire);

namespace collective {

// The steps of a merge without the type of its values; ButterflyMerge implements it.
class MergeSteps {
 public:
  // Appends this rank's value to `out`.
  virtual void encode(Payload& out) = 0;
  // Replaces this rank's value by the one in the message.
  virtual void replace(Bytes message) = 0;
  // Combines this rank's value with the one in the message, which holds the contributions of lower
  // ranks or of higher ones.
  virtual void combine(Bytes message, bool lower) = 0;

 protected:
  ~MergeSteps() = default;
};
// Runs the rounds. `message` is scratch memory for what is sent.
TW_EXPORT void merge_butterfly(Transport& wire, Payload& message, std::size_t max_bytes,
                               MergeSteps& steps);

}  // namespace collective

// What a merge needs to know about its values. The functions are called on the thread of run().
// They may throw; a WireError of decode or combine gets the name of the rank that sent the message.
template <class Rule, class Value>
concept MergeRule = requires(Rule& rule, const Value& value, Value& out, Payload& bytes, Bytes in) {
  // Appends the value to `bytes`, which is empty.
  rule.encode(value, bytes);
  // Replaces `out` by the value in the message. The bytes are valid during the call.
  rule.decode(in, out);
  // Replaces `out` by the two values combined. `lower` holds the contributions of a range of ranks,
  // `higher` those of the range that follows it. Must depend on its operands alone; need not be
  // associative or commutative. `out` is another object; it may hold an old value.
  rule.combine(value, value, out);
};

// Combines the values of all ranks pairwise (recursive doubling): log2 P rounds in which all ranks
// work, and two more if P is no power of two. A value is encoded once for each message and decoded
// once by its receiver. Keeps its memory between calls; one thread at a time may use it.
template <class Value>
class ButterflyMerge {
 public:
  // Called by all ranks together. `value` is this rank's contribution, and afterwards the result,
  // the same on every rank. Throws std::logic_error if a value of this rank takes more than
  // max_bytes, and WireError if a rank sends more.
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
