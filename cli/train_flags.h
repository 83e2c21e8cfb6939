// The flags of commands that train: declared, checked and turned into options once for all of them.
#pragma once

#include <string>
#include <vector>

#include "launch/group.h"
#include "trainer/train.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

struct TrainFlags {
  trainer::TrainOptions options;
  trainer::RunLength length;
  double momentum = 0.9, weight_decay = 0;
  std::string nonfinite = "skip";
  std::vector<std::string> slow;
  double step_time = 0;
  launch::GroupOptions group;
  std::string events;  // the file of the event stream; empty: none
  bool json = false, quiet = false;
};

// The first adds what is learned and how, the second how a run is watched, saved and disturbed. The
// commands themselves add how workers communicate and where the results go.
void add_training_flags(CLI::App& command, TrainFlags& flags);
void add_run_flags(CLI::App& command, TrainFlags& flags);

// Fills the options from the flags. Throws ConfigError if they are wrong, before anything starts.
void complete(TrainFlags& flags, const launch::Group& group, const trainer::DataPair& data);

// Throws ConfigError if a model per worker does not fit into this machine's memory.
void check_memory(std::size_t parameters, const launch::Group& group);

}  // namespace thinwire::cli
