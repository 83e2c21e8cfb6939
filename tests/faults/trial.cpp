#include "tests/faults/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "testing/child_process.h"
#include "testing/scratch_directory.h"
#include "tests/faults/error_check.h"
#include "tests/faults/inject.h"

namespace thinwire::faults {
namespace {

using test::operator+;

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kSaveEvery = 10;
constexpr std::chrono::milliseconds kGlance{2};

template <class Condition>
bool look_until(Condition condition, Seconds patience) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (!condition()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kGlance);
  }
  return true;
}

std::string this_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::uint64_t steps_logged(const fs::path& out) {
  std::ifstream log(out / "run.jsonl");
  std::uint64_t steps = 0;
  for (std::string line; std::getline(log, line);) steps += line.find("\"lr\"") != line.npos;
  return steps;
}

// Returns the newest step of which every rank has its file; 0 if there is none.
std::uint64_t newest_checkpoint(const fs::path& out) {
  std::map<std::uint64_t, int> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(out / "checkpoints", missing)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(".ck")) ++files[std::stoull(name.substr(5))];
  }
  std::uint64_t newest = 0;
  for (const auto& [step, count] : files) {
    if (count == kWorkers + 1) newest = step;  // one per rank, and the model
  }
  return newest;
}

std::vector<std::string> temporary_files(const fs::path& directory) {
  std::vector<std::string> out;
  std::error_code missing;
  for (const auto& entry : fs::recursive_directory_iterator(directory, missing)) {
    if (entry.path().extension() == ".tmp") out.push_back(entry.path().filename());
  }
  return out;
}

class Trial {
 public:
  Trial(const Fault& fault, std::string program, const fs::path& scratch,
        const Deadlines& deadlines)
      : program_(std::move(program)),
        deadlines_(deadlines),
        out_(scratch / "out"),
        temporary_(scratch / "tmp"),
        outcome_{fault} {
    fs::create_directories(temporary_);
    fs::create_directories(out_);
  }

  Outcome run() {
    if (disturb()) resume();
    return outcome_;
  }

 private:
  const Fault& fault() const { return outcome_.fault; }
  bool joining() const { return fault().step == 0; }

  void note_problem(const std::string& text) {
    if (outcome_.problem.empty()) outcome_.problem = text;
  }

  // The run that is disturbed has deadlines of its own; those after it have none to meet.
  test::Words disturbed_command() const {
    return command(1'000'000, fault().kind == Kind::stop ? deadlines_.stop : kEndless,
                   joining() ? deadlines_.join : kEndless);
  }
  test::Words command(std::uint64_t steps, Seconds timeout = kEndless,
                      Seconds join_timeout = kEndless) const {
    const test::Words launcher = {MPIRUN,  "--allow-run-as-root",   "--oversubscribe",
                                  "--mca", "oob_tcp_if_include",    "lo",
                                  "--mca", "btl_tcp_if_include",    "lo",
                                  "-n",    std::to_string(kWorkers)};
    const test::Words train = {program_,         "train",
                               "--model",        "mlp",
                               "--batch",        "4",
                               "--workers",      std::to_string(kWorkers),
                               "--strategy",     fault().strategy,
                               "--transport",    fault().transport,
                               "--steps",        std::to_string(steps),
                               "--save-every",   std::to_string(kSaveEvery),
                               "--timeout",      fmt::format("{}", timeout.count()),
                               "--join-timeout", fmt::format("{}", join_timeout.count()),
                               "--events",       events_.string(),
                               "--out",          out_.string()};
    return fault().transport == "mpi" ? launcher + train : train;
  }
  test::Words environment() const { return {fmt::format("TMPDIR={}", temporary_.string())}; }

  // Starts a run and injects the fault. Returns whether the fault was injected.
  bool disturb() {
    test::ChildProcess run(disturbed_command(), environment());
    const bool injected = disturb(run);
    outcome_.output = run.describe() + error_events();
    return injected;
  }

  bool disturb(test::ChildProcess& run) {
    if (!await_moment(run)) {
      note_problem("the run did not reach the moment of the fault");
      return false;
    }
    ranks_ = ranks_of(run);
    if (static_cast<int>(ranks_.size()) != kWorkers) {
      note_problem(fmt::format("only {} workers run before the fault", ranks_.size()));
      return false;
    }
    const Resources resources = resources_of(ranks_);
    const RankProcesses others(survivors());
    const auto start = Clock::now();
    inject_fault();
    outcome_.injected = true;
    watch(run, others, start);
    if (!outcome_.hung) examine(run);
    look_for_leftovers(run, resources);
    return true;
  }

  bool await_moment(const test::ChildProcess& run) const {
    const auto come = [&] {
      return joining() ? static_cast<int>(ranks_of(run).size()) == kWorkers
                       : steps_logged(out_) >= fault().step;
    };
    const bool in_time =
        look_until([&] { return come() || run.exit_code() || run.ended_by_signal(); }, kPatience);
    std::this_thread::sleep_for(fault().delay);
    return in_time && come();
  }

  void inject_fault() {
    blamed_ = {fault().victim};
    const pid_t pid = ranks_.at(fault().victim);
    switch (fault().kind) {
      case Kind::kill:
        kill(pid, SIGKILL);
        break;
      case Kind::stop:
        kill(pid, SIGSTOP);
        break;
      case Kind::close:
        blamed_ = close_connection(ranks_, fault().victim, fault().choice);
        break;
      case Kind::full:
        constexpr std::uint32_t kMostRoom = 1 << 20;  // less than a checkpoint needs
        filler_.emplace(out_, fault().choice % kMostRoom);
    }
  }

  // Returns the ranks that still run after the fault. A rank that lost a connection, or has no disk
  // space, is one of them.
  Ranks survivors() const {
    Ranks out = ranks_;
    if (fault().kind == Kind::kill || fault().kind == Kind::stop) out.erase(fault().victim);
    return out;
  }

  void watch(test::ChildProcess& run, const RankProcesses& others, Clock::time_point start) {
    bool continued = !fault().continued;
    const bool all_ended = look_until(
        [&] {
          if (filler_) filler_->fill();
          const int ended = others.ended();
          if (ended > 0 && !std::exchange(continued, true)) {
            kill(ranks_.at(fault().victim), SIGCONT);
          }
          return ended == others.size();
        },
        kPatience);
    outcome_.survivors = Clock::now() - start;
    outcome_.hung = !all_ended || !run.wait(kPatience);
    outcome_.run = Clock::now() - start;
    if (!outcome_.hung) return;
    note_problem(all_ended ? "the launcher hung"
                           : fmt::format("{} of {} survivors hung", others.size() - others.ended(),
                                         others.size()));
    run.kill_all();
    run.wait(kPatience);
  }

  void examine(const test::ChildProcess& run) {
    ExpectedErrors expected;
    expected.host = this_host();
    expected.without_deadline = fault().kind != Kind::stop;
    if (!joining()) {
      for (const auto& [rank, pid] : survivors()) expected.survivors.insert(rank);
    }
    const bool full = fault().kind == Kind::full;
    const std::vector<ErrorFields> errors = errors_in(events_);
    expected.blamed = full ? ranks_without_room(errors) : blamed_;
    const int code = run.exit_code().value_or(-1);
    const std::string missing =
        full && expected.blamed.empty() ? "no error says that the disk is full"
        : fault().transport == "mpi"    ? not_named_under_mpi(errors, run.merged(), expected, code)
                                        : not_named(errors, exit_in(events_), expected, code);
    outcome_.named = missing.empty();
    if (!outcome_.named) note_problem(missing);
  }

  // Returns the errors and the exit in the event stream, on which the check is based.
  std::string error_events() const {
    std::ifstream events(events_);
    std::string out;
    for (std::string line; std::getline(events, line);) {
      const bool shown = line.find("\"error\"") != line.npos || line.find("\"exit\"") != line.npos;
      if (shown) out += "\n" + line;
    }
    return out + "\n";
  }

  // Checks only resources of this run: processes of its session, sockets and shared memory that its
  // ranks had, and its own TMPDIR.
  void look_for_leftovers(test::ChildProcess& run, const Resources& resources) {
    const bool no_process = run.wait_for_descendants(kPatience);
    // A process whose first thread has ended counts as ended, but its sockets stay until the last
    // of its threads has ended, which takes a while on a busy machine.
    Resources left;
    look_until(
        [&] {
          left = still_there(resources);
          return left.listening.empty() && left.shared_memory.empty();
        },
        kPatience);
    const bool no_file = fs::is_empty(temporary_);
    outcome_.clean = no_process && left.listening.empty() && left.shared_memory.empty() && no_file;
    if (!no_process) note_problem("a process still runs");
    for (const auto& [inode, port] : left.listening) {
      note_problem(fmt::format("port {} is still open", port));
    }
    if (!no_file) note_problem("a temporary file still exists");
    for (const auto& [file, inode] : left.shared_memory) {
      note_problem(fmt::format("shared memory still exists: {}", file.string()));
    }
  }

  void resume() {
    filler_.reset();
    const std::uint64_t newest = newest_checkpoint(out_);
    test::Words words = command(newest + kSaveEvery);
    words.push_back("--resume");
    test::ChildProcess run(words, environment());
    if (!run.wait(kPatience)) return note_problem("the resumed run hung");
    const std::string expected =
        newest > 0 ? fmt::format("resuming after step {}", newest) : "there is no checkpoint";
    outcome_.resumed =
        run.exit_code() == (newest > 0 ? 0 : 2) && run.merged().find(expected) != std::string::npos;
    if (!outcome_.resumed) {
      return note_problem(
          fmt::format("'{}' was expected of --resume: {}", expected, run.describe()));
    }
    if (newest == 0 && !start_again()) return;
    const std::vector<std::string> left = temporary_files(out_);
    if (left.empty()) return;
    outcome_.clean = false;
    note_problem(fmt::format("after the next run there is still {}", fmt::join(left, ", ")));
  }

  // A run that was refused has changed nothing; a new run removes the old files.
  bool start_again() {
    test::ChildProcess run(command(kSaveEvery), environment());
    if (run.wait(kPatience) && run.exit_code() == 0) return true;
    outcome_.resumed = false;
    note_problem(
        fmt::format("there was nothing to resume, and a new run failed: {}", run.describe()));
    return false;
  }

  std::string program_;
  Deadlines deadlines_;
  fs::path out_, temporary_;
  // On another disk than the run's files: when the small disk is full, the error still is recorded.
  test::ScratchDirectory evidence_;
  fs::path events_ = evidence_.path() / "events.jsonl";
  Outcome outcome_;
  Ranks ranks_;
  // The ranks that survivors may name. For a full disk it is the rank that writes next.
  std::set<int> blamed_;
  std::optional<DiskFiller> filler_;
};

}  // namespace

Outcome inject(const Fault& fault, const std::string& program, const fs::path& scratch,
               const Deadlines& deadlines) {
  Outcome outcome = Trial(fault, program, scratch, deadlines).run();
  for (const auto& entry : fs::directory_iterator(scratch)) fs::remove_all(entry.path());
  return outcome;
}

}  // namespace thinwire::faults
