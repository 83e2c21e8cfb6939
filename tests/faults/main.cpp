// Injects faults into real runs:
//   faults [--count N] [--seed S] [--only NUMBER] [--jobs J] [--stop-timeout S]
//          [--join-timeout S] [--json FILE] [--program THINWIRE]
//   faults --table FILE     only the tables of a file of outcomes
// Each fault is injected into a run of 4 workers at a random moment. The run must end in time with
// an error that names the right rank, leave no process, port or file behind, and resume from its
// newest checkpoint. Exits with 1 if a run did not. The same seed gives the same schedule; --only
// repeats one fault of it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

#include "testing/scratch_directory.h"
#include "tests/faults/inject.h"
#include "tests/faults/report.h"

namespace thinwire::faults {
namespace {

// Room for four checkpoints of gossip, whose ranks each save a model and messages in flight.
constexpr std::uint64_t kDiskBytes = 256 << 20;

struct Options {
  int count = 12;
  std::uint64_t seed = 1;
  int only = 0;
  int jobs = 1;
  double stop_timeout = Deadlines().stop.count(), join_timeout = Deadlines().join.count();
  std::string json;
  std::string program = THINWIRE;
};

std::string sentence(const Outcome& outcome) {
  const std::string end =
      outcome.problem.empty() ? "named, clean, resumed" : "PROBLEM: " + outcome.problem;
  return fmt::format("{}: survivors ended after {:.2f} s, the run after {:.2f} s: {}\n{}",
                     outcome.fault.describe(), outcome.survivors.count(), outcome.run.count(), end,
                     outcome.problem.empty() ? "" : outcome.output);
}

// Runs several faults at a time, because runs mostly wait. Each has its own run, disk and thread.
class Matrix {
 public:
  explicit Matrix(const Options& options) : options_(options) {
    std::vector<Kind> kinds = {Kind::kill, Kind::stop, Kind::close, Kind::full};
    if (!privileged_) kinds = {Kind::kill, Kind::stop};
    faults_ = fault_schedule(options.seed, std::max(options.count, options.only), kinds);
    if (options.only != 0) {
      std::erase_if(faults_, [&](const Fault& fault) { return fault.number != options.only; });
    }
    if (!options.json.empty()) lines_.open(options.json, std::ios::trunc);
  }

  // Returns how many runs did not end as they should.
  int run() {
    std::cout << fmt::format("{} faults, seed {}", faults_.size(), options_.seed) << std::endl;
    {
      std::vector<std::jthread> jobs;
      for (int job = 0; job < options_.jobs; ++job) jobs.emplace_back([this] { work(); });
    }
    std::cout << fmt::format(
                     "{} of {} faults were not handled as documented{}", problems_, faults_.size(),
                     privileged_ ? ""
                                 : "; SKIPPED, because they need root: closed sockets and a "
                                   "full disk")
              << std::endl;
    return problems_;
  }

 private:
  static bool can_have_disks() {
    const test::ScratchDirectory scratch;
    return SmallDisk(scratch.path(), kDiskBytes).mounted();
  }

  void work() {
    const test::ScratchDirectory scratch;
    const SmallDisk disk(scratch.path(), kDiskBytes);
    for (std::size_t next = next_++; next < faults_.size(); next = next_++) {
      Outcome outcome{faults_[next]};
      try {
        outcome = inject(faults_[next], options_.program, scratch.path(),
                         {Seconds(options_.stop_timeout), Seconds(options_.join_timeout)});
      } catch (const std::exception& error) {
        outcome.problem = fmt::format("the fault could not be injected: {}", error.what());
      }
      report(outcome);
    }
  }

  void report(const Outcome& outcome) {
    const std::lock_guard lock(mutex_);
    problems_ += !outcome.problem.empty();
    std::cout << sentence(outcome) << std::flush;
    lines_ << to_json(outcome, options_.seed) << std::endl;
  }

  const Options& options_;
  const bool privileged_ = can_have_disks();
  std::vector<Fault> faults_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::ofstream lines_;
  int problems_ = 0;
};

}  // namespace
}  // namespace thinwire::faults

static int run(int argc, char** argv) {
  CLI::App app("Injects faults into real runs of thinwire and checks how they end.");
  thinwire::faults::Options options;
  std::string table;
  app.add_option("--count", options.count, "faults to inject (12)");
  app.add_option("--seed", options.seed, "of the schedule (1)");
  app.add_option("--only", options.only, "one fault of the schedule, by number");
  app.add_option("--jobs", options.jobs, "faults to inject at a time (1)");
  app.add_option("--stop-timeout", options.stop_timeout,
                 "seconds after which a stopped worker is given up (3)");
  app.add_option("--join-timeout", options.join_timeout,
                 "seconds in which workers must come together if one is disturbed meanwhile (10)");
  app.add_option("--json", options.json, "file for one line of JSON per fault");
  app.add_option("--program", options.program, "another thinwire than the one built here");
  app.add_option("--table", table, "print the tables of such a file, and inject nothing");
  CLI11_PARSE(app, argc, argv);
  if (table.empty()) return thinwire::faults::Matrix(options).run() == 0 ? 0 : 1;
  std::cout << thinwire::faults::tables(table);
  return 0;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "faults: " << error.what() << '\n';
    return 2;
  }
}
