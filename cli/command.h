// The commands. Each one adds its words and flags to the parser and sets the action to run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/console.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

struct Invocation {
  launch::Io& io;
  std::vector<std::string> arguments;  // as typed, without the program's name
  std::function<int()> action;         // returns the exit code
};

void add_plan(CLI::App& root, Invocation& invocation);
void add_train(CLI::App& root, Invocation& invocation);    // only with libtorch
void add_compare(CLI::App& root, Invocation& invocation);  // only with libtorch
void add_bench(CLI::App& root, Invocation& invocation);
void add_list(CLI::App& root, Invocation& invocation);
void add_help(CLI::App& root, Invocation& invocation);

// Parses and runs; returns the exit code. Every error has been printed.
int run(std::vector<std::string> arguments, launch::Io& io);

}  // namespace thinwire::cli
