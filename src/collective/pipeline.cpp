#include "collective/pipeline.h"

#include <algorithm>
#include <array>

namespace thinwire::collective {
namespace {

// The number of chunks in flight in each direction. Three would hide the latency and the computing
// for one chunk; the others keep the wire busy while a rank waits for a CPU core: 33 ms at 1
// Gbit/s.
constexpr std::size_t kWindow = 8;
constexpr std::size_t kSlotAlignment = 64;

class Pipeline {
 public:
  Pipeline(Transport& wire, Tag tag, const Schedule& schedule, const Reduction& reduction,
           Finish* finish)
      : wire_(wire),
        tag_(tag),
        schedule_(schedule),
        reduction_(reduction),
        finish_(finish),
        window_(std::min({kWindow, schedule.messages, schedule.overwrites})),
        lead_(std::min(schedule.depends, window_)),
        late_(schedule.depends == 0 ? window_ : 0),
        slot_bytes_((schedule.longest + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment),
        slots_(wire.scratch(window_ * slot_bytes_)) {}

  // No deadlock: everything that iteration i waits for was posted by the peers in earlier
  // iterations (receive i + window and send i + lead in iteration i) or before the first.
  void run() {
    for (std::size_t i = 0; i < window_; ++i) post_receive(i);
    for (std::size_t i = 0; i < lead_; ++i) post_send(i);
    for (std::size_t i = 0; i < schedule_.messages + late_; ++i) {
      const bool more = i < schedule_.messages;
      if (more) finish_receive(i);
      // This frees the bytes of send i for the combination in place, and the bytes of earlier sends
      // for messages up to i + window that are stored.
      if (i >= late_) finish_send(i - late_);
      if (more) process(i);
      if (i + window_ < schedule_.messages) post_receive(i + window_);
      if (i + lead_ < schedule_.messages) post_send(i + lead_);
      if (more && finish_ != nullptr) finish_stored(i);
    }
  }

 private:
  void post_receive(std::size_t i) {
    const Hop hop = schedule_.hop(i);
    if (hop.peering.from == kNoRank) return;
    const MutBytes into = hop.peering.arrival == Arrival::store ? hop.in : slot(i, hop.in.size());
    receives_[i % window_] = wire_.post_recv(hop.peering.from, tag_, into, Fit::exact);
  }
  void post_send(std::size_t i) {
    const Hop hop = schedule_.hop(i);
    if (hop.peering.to == kNoRank) return;
    sends_[i % window_] = wire_.post_send(hop.peering.to, tag_, hop.out);
  }
  void finish_receive(std::size_t i) {
    if (schedule_.hop(i).peering.from != kNoRank) wire_.wait(receives_[i % window_]);
  }
  void finish_send(std::size_t i) {
    if (schedule_.hop(i).peering.to != kNoRank) wire_.wait(sends_[i % window_]);
  }
  void process(std::size_t i) {
    const Hop hop = schedule_.hop(i);
    if (hop.peering.from == kNoRank || hop.peering.arrival == Arrival::store) return;
    const std::byte* arrived = slot(i, hop.in.size()).data();
    std::byte* own = hop.in.data();
    const bool first = hop.peering.arrival == Arrival::lower;
    reduction_.combine(first ? arrived : own, first ? own : arrived, own,
                       hop.in.size() / reduction_.element_bytes);
    const Share& last = schedule_.completes;
    if (finish_ != nullptr && i >= last.begin && i < last.end) finish_->combined(hop.in);
  }
  void finish_stored(std::size_t i) {
    const Hop hop = schedule_.hop(i);
    if (hop.peering.from != kNoRank && hop.peering.arrival == Arrival::store) {
      finish_->arrived(hop.in);
    }
  }
  MutBytes slot(std::size_t i, std::size_t bytes) const {
    return slots_.subspan(i % window_ * slot_bytes_, bytes);
  }

  Transport& wire_;
  Tag tag_;
  const Schedule& schedule_;
  const Reduction& reduction_;
  Finish* finish_;
  std::size_t window_;
  std::size_t lead_;  // how many messages sends are ahead of those that were processed
  std::size_t late_;  // how many messages later a send must be complete
  std::size_t slot_bytes_;
  MutBytes slots_;
  std::array<Pending, kWindow> receives_{};
  std::array<Pending, kWindow> sends_{};
};

}  // namespace

void run_pipeline(Transport& wire, Tag tag, const Schedule& schedule, const Reduction& reduction,
                  Finish* finish) {
  Pipeline(wire, tag, schedule, reduction, finish).run();
}

}  // namespace thinwire::collective
