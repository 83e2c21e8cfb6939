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
  double scale = 1;      // each parameter stands for so many, on the wire
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

// Floats per parameter that a worker holds, a generous guess: its gradient, what it keeps from step
// to step, messages; and where models are exchanged, parameters and snapshots.
constexpr std::size_t rehearsal_buffers(Pace pace) { return pace == Pace::lockstep ? 3 : 6; }

}  // namespace thinwire::cli
