#include "transport/sim/sim_platform.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace thinwire::transport::sim {
namespace {

namespace s4u = simgrid::s4u;

// SimGrid replaces signal handlers of the program. This class restores them.
class RestoredSignals {
 public:
  RestoredSignals() {
    each([](int signal, struct sigaction& old) { sigaction(signal, nullptr, &old); });
  }
  ~RestoredSignals() {
    each([](int signal, struct sigaction& old) { sigaction(signal, &old, nullptr); });
  }
  RestoredSignals(const RestoredSignals&) = delete;
  RestoredSignals& operator=(const RestoredSignals&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGSEGV, SIGBUS};

  template <class Action>
  void each(Action action) {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) action(kSignals[i], old_[i]);
  }
  struct sigaction old_[std::size(kSignals)];
};

// A star of hosts. If a run needs more hosts, the whole platform is built again, because SimGrid
// seals a platform at its first run.
class Platform {
 public:
  Stage prepare(std::size_t workers, double bytes_per_second) {
    if (workers > hosts_.size()) build(std::bit_ceil(std::max(workers, kFirstHosts)));
    if (bytes_per_second > 0) set_rate(workers, bytes_per_second);
    const double start = std::max(kEpoch, std::floor(s4u::Engine::get_clock()) + 1);
    engine_->run_until(start);
    return {std::span(hosts_).first(workers), Seconds(start)};
  }
  void run() { engine_->run(); }

 private:
  static constexpr std::size_t kFirstHosts = 1024;
  // The engine's clock never goes back, and the rounding of a time depends on its magnitude. If
  // every simulation starts at a whole second between 2^20 and 2^21, all round alike, to 0.23 ns,
  // and equal simulations have equal times to the last bit. (After the first million simulated
  // seconds of a process they may differ in that last bit.)
  static constexpr double kEpoch = 1 << 20;

  void build(std::size_t hosts) {
    const RestoredSignals signals;
    hosts_.clear();
    links_.clear();
    engine_.reset();
    start_engine();
    auto* star = s4u::create_star_zone("star");
    for (std::size_t i = 0; i < hosts; ++i) {
      const std::string name = std::to_string(i);
      auto* host = star->create_host(name, 1e9)->seal();
      auto* up = star->create_link("up" + name, 1e9)->seal();
      auto* down = star->create_link("down" + name, 1e9)->seal();
      auto* port = host->get_netpoint();
      star->add_route(port, nullptr, nullptr, nullptr, {s4u::LinkInRoute(up)}, false);
      star->add_route(nullptr, port, nullptr, nullptr, {s4u::LinkInRoute(down)}, false);
      hosts_.push_back(host);
      links_.insert(links_.end(), {Line{up}, Line{down}});
    }
    star->seal();
  }

  void start_engine() {
    std::string arguments[] = {
      "thinwire",
      "--log=root.app:file:/dev/null",  // also discards what SimGrid prints before it aborts
      "--log=root.thresh:critical",
      "--cfg=network/model:CM02",
      "--cfg=network/crosstraffic:0",
      "--cfg=contexts/stack-size:8192",  // KiB, committed on use; libtorch needs several MiB
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
      "--cfg=contexts/factory:thread",  // sanitizers do not support SimGrid's own context switches
#endif
      "--cfg=debug/clean-atexit:0",  // the process may end while the engine's thread waits
    };
    char* argv[std::size(arguments) + 1] = {};
    std::transform(std::begin(arguments), std::end(arguments), argv,
                   [](std::string& argument) { return argument.data(); });
    int argc = static_cast<int>(std::size(arguments));
    engine_ = std::make_unique<s4u::Engine>(&argc, argv);
  }

  void set_rate(std::size_t workers, double bytes_per_second) {
    for (Line& line : std::span(links_).first(2 * workers)) {
      if (line.rate != bytes_per_second) line.link->set_bandwidth(bytes_per_second);
      line.rate = bytes_per_second;
    }
  }

  struct Line {
    s4u::Link* link;
    double rate = 1e9;
  };
  std::unique_ptr<s4u::Engine> engine_;
  std::vector<s4u::Host*> hosts_;
  std::vector<Line> links_;  // for each host, up and down
};

// SimGrid allows one engine per process, to be used by the thread that made it. That is the only
// reason for this singleton and for its thread, which lives as long as the process.
class EngineThread {
 public:
  static EngineThread& get() {
    static EngineThread& one = *new EngineThread;  // not destroyed: its thread may outlive main()
    return one;
  }

  void run(const std::function<void(Platform&)>& job) {
    const std::lock_guard turn(turn_);
    std::unique_lock lock(mutex_);
    job_ = &job;
    changed_.notify_all();
    changed_.wait(lock, [&] { return job_ == nullptr; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  EngineThread() {
    std::thread([this] { serve(); }).detach();
  }

  void serve() {
    Platform platform;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return job_ != nullptr; });
      try {
        (*job_)(platform);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex turn_;  // The caller whose simulation runs holds it.
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(Platform&)>* job_ = nullptr;
  std::exception_ptr thrown_;
};

}  // namespace

void simulate(int workers, double bytes_per_second,
              const std::function<void(const Stage&)>& enter) {
  if (s4u::Actor::self() != nullptr) {
    throw std::logic_error("sim: a simulated worker cannot start another simulation");
  }
  EngineThread::get().run([&](Platform& platform) {
    enter(platform.prepare(static_cast<std::size_t>(workers), bytes_per_second));
    platform.run();
  });
}

}  // namespace thinwire::transport::sim
