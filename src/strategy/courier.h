// Letters between workers that do not wait for each other: a task receives whatever comes from
// whomever, another sends what the training thread hands it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "strategy/gossip_exchange.h"
#include "thinwire/transport.h"

namespace thinwire {

// The task that receives does nothing else, so a letter is always taken and no send waits longer
// than its bytes need.
class Courier {
 public:
  // Called by the receiving task for every letter with a model and every refusal.
  using Arrived = std::function<void(int from, const Letter::Contents&, Letter&)>;

  explicit Courier(Arrived arrived) : arrived_(std::move(arrived)) {}
  ~Courier();

  // By all ranks, once; models have numel elements.
  void open(Transport& wire, std::size_t numel);

  // The rest is for the training thread.
  void start_receiving();
  bool receiving() const noexcept { return receiver_ != nullptr; }
  // Whether all letters handed over so far have left.
  bool idle();
  // While idle.
  void send(std::vector<Dispatch> letters);
  // Throws what made a task fail.
  void rethrow_failure();
  // By all ranks together, which send nothing meanwhile: afterwards every letter has arrived, and
  // none is received until start_receiving().
  void drain();

 private:
  void receive();
  int neighbour() const { return (wire_->rank() + 1) % wire_->size(); }

  Arrived arrived_;
  Transport* wire_ = nullptr;
  std::unique_ptr<Transport> lane_;  // for farewells
  std::unique_ptr<Transport> in_, out_;
  Letter incoming_;
  std::vector<std::uint64_t> sent_;  // to each rank
  std::uint64_t received_ = 0;
  std::atomic<bool> abandoned_{false};
  std::vector<Dispatch> letters_;  // of the task that sends

  std::unique_ptr<Task> sender_, receiver_;  // last: they use the members above
};

}  // namespace thinwire
