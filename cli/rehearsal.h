// A strategy at work on simulated workers with made-up gradients, for as many steps as it takes to
// know what a step costs.
#pragma once

#include <string>
#include <vector>

#include "thinwire/network.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {

struct Rehearsal {
  std::string strategy;  // a spec
  int workers = 2;
  std::size_t numel = 0;
  Network network;
  Seconds computing{0};  // of a worker between two exchanges
  // Steps in this order. Those that count come last; the strategy's own computing takes no time in
  // them, so that what they take is a function of the rehearsal alone.
  int warmup = 1;
  int charged = 0;  // to measure the strategy's own computing
  int counted = 0;
};

struct Rehearsed {
  // Of the steps that count, means over the workers.
  Seconds step{0};  // virtual
  double bytes_sent = 0;
  double busiest_bytes = 0;  // that the worker with most of them sends or receives
  // Steps that count in which the worker that told least told something.
  int exchanges = 0;
  Seconds codec{0};             // of a charged step on the median worker, CPU time
  std::vector<Figure> figures;  // over all workers
};

// ConfigError if the strategy cannot work with so many workers.
Rehearsed rehearse(const Rehearsal& plan);

// Floats per element that a worker needs, a generous guess: gradient, parameters, residual or
// snapshots, messages.
inline constexpr std::size_t kRehearsalBuffers = 5;

}  // namespace thinwire::cli
