#include "launch/launcher.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <system_error>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "launch/token.h"
#include "launch/worker_process.h"
#include "thinwire/transport.h"

namespace thinwire::launch {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string this_host() {
  char name[256] = "this host";
  gethostname(name, sizeof name - 1);
  return name;
}

// The listening socket of rank 0. The launcher opens it and rank 0 inherits it, so that no other
// process can take the port between its choice and its use.
struct MasterSocket {
  base::UniqueFd socket;
  std::uint16_t port = 0;

  MasterSocket() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (!socket || bind(socket.get(), raw, length) != 0 || listen(socket.get(), SOMAXCONN) != 0 ||
        getsockname(socket.get(), raw, &length) != 0) {
      fail("launch: no listening socket on 127.0.0.1");
    }
    port = ntohs(address.sin_port);
  }
};

// The descriptor to which report_signal() writes. A signal handler can only use globals.
std::atomic<int> signal_event{-1};

extern "C" void report_signal(int) {
  const int before = errno;
  const std::uint64_t one = 1;
  if (write(signal_event.load(), &one, sizeof one) < 0) {
    // The counter is full, so the event is already there.
  }
  errno = before;
}

// Turns SIGINT and SIGTERM into events that poll() sees, as long as this object lives. It installs
// handlers instead of blocking the signals, because threads of libraries may not block them.
class SignalEvents {
 public:
  SignalEvents() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) fail("launch: eventfd");
    signal_event = event_.get();
    struct sigaction action {};
    action.sa_handler = report_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~SignalEvents() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }
  SignalEvents(const SignalEvents&) = delete;
  SignalEvents& operator=(const SignalEvents&) = delete;

  int descriptor() const { return event_.get(); }
  // Returns how many signals came since the last call.
  std::uint64_t take() {
    std::uint64_t count = 0;
    return read(event_.get(), &count, sizeof count) == sizeof count ? count : 0;
  }

 private:
  base::UniqueFd event_;
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

// The settings that all workers of one launch share.
struct Job {
  MasterSocket master;
  std::string token = fresh_token();  // keeps other users of this machine out
  int workers = 1;
  bool terminal = false;
};

std::vector<std::string> environment_of(int rank, const Job& job) {
  std::vector<std::string> ours = {
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", job.workers),
      fmt::format("LOCAL_RANK={}", rank),
      fmt::format("LOCAL_WORLD_SIZE={}", job.workers),
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", job.master.port),
      fmt::format("{}={}", kTokenVariable, job.token),
      "TORCHELASTIC_USE_AGENT_STORE=False",
      fmt::format("{}={}", kLauncherVariable,
                  job.terminal ? kLauncherOnTerminal : kLauncherElsewhere),
  };
  if (rank == 0) {
    ours.push_back(fmt::format("{}={}", kMasterSocketVariable, job.master.socket.get()));
  }
  return base::environment_with(ours);
}

class JobMonitor {
 public:
  JobMonitor(const LaunchOptions& options, Io& io)
      : options_(options), io_(io), relay_(io.err), start_(now()) {
    Job job;
    job.workers = options.workers;
    job.terminal = io.live;
    for (int rank = 0; rank < options.workers; ++rank) {
      workers_.emplace_back(rank, options.command, environment_of(rank, job),
                            rank == 0 ? job.master.socket.get() : -1);
    }
  }

  int run() {
    while (std::ranges::any_of(workers_, &WorkerProcess::running)) {
      wait_for_events();
      if (signals_.take() > 0) interrupt();
      for (WorkerProcess& worker : workers_) worker.forward_output(relay_);
      if (deadline_ && now() >= *deadline_) escalate();
    }
    if (interrupted_) {
      print_error(io_, fmt::format("interrupted; all {} workers have stopped", options_.workers));
      return kInterrupted;
    }
    if (!failures_.empty()) return report();
    return stopped_ranks_.empty() ? kOk : report_hung_ranks();
  }

 private:
  struct Failure {
    const WorkerProcess* worker;
    Seconds after;
  };

  static Seconds now() { return system_runtime().now(); }

  void wait_for_events() {
    std::vector<pollfd> events = {{signals_.descriptor(), POLLIN, 0}};
    for (const WorkerProcess& worker : workers_) {
      events.push_back({worker.running() ? worker.end_event() : -1, POLLIN, 0});
      events.push_back({worker.output(), POLLIN, 0});
    }
    int milliseconds = -1;
    if (deadline_) {
      milliseconds = std::max(0, static_cast<int>((*deadline_ - now()).count() * 1000) + 1);
    }
    if (poll(events.data(), events.size(), milliseconds) < 0 && errno != EINTR)
      fail("launch: poll");
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (events[1 + 2 * i].revents != 0) note_end(workers_[i]);
    }
  }

  void note_end(WorkerProcess& worker) {
    worker.reap(relay_);
    if (sent_signal_ != 0) return;
    if (worker.exit().succeeded()) return limit_the_others(options_.timeout + options_.grace);
    failures_.push_back({&worker, now() - start_});
    limit_the_others(options_.grace);
  }

  void limit_the_others(Seconds time) {
    const Seconds limit = now() + time;
    deadline_ = deadline_ ? std::min(*deadline_, limit) : limit;
  }

  void interrupt() {
    if (interrupted_) sent_signal_ = SIGTERM;  // the second Ctrl-C kills at once
    interrupted_ = true;
    escalate();
  }

  // Stops workers that did not end by themselves: SIGTERM first, SIGKILL next time.
  void escalate() {
    if (sent_signal_ == 0) {
      for (const WorkerProcess& worker : workers_) {
        if (worker.running()) stopped_ranks_.push_back(worker.rank());
      }
    }
    sent_signal_ = sent_signal_ == 0 ? SIGTERM : SIGKILL;
    for (WorkerProcess& worker : workers_) worker.signal(sent_signal_);
    deadline_ = now() + options_.kill_delay;
  }

  // Returns the first failure that was not caused by another rank's, or else the first one.
  const Failure& cause() const {
    const auto own = std::ranges::find_if(failures_, [](const Failure& failure) {
      const base::ProcessExit& exit = failure.worker->exit();
      return exit.by_signal || exit.number != kPeerFailed;
    });
    return own != failures_.end() ? *own : failures_.front();
  }

  int report() {
    const auto& [worker, after] = cause();
    const base::ProcessExit& exit = worker->exit();
    if (worker->last_lines().size() > (exit.by_signal ? 0 : 1)) {
      print_error(io_, fmt::format("the last output of rank {}:", worker->rank()));
      for (const std::string& line : worker->last_lines()) io_.err << "  | " << line << '\n';
    }
    RunFailure failure{worker->rank(), this_host(), exit.signal_name(), std::nullopt, after,
                       stopped_ranks_, ""};
    if (!exit.by_signal) failure.code = exit.number;
    failure.text = what_happened(failure) + hint(failure) + quotation(*worker);
    publish(failure);
    return failure.code == kBadUsage ? kBadUsage : kRunFailed;
  }

  void publish(const RunFailure& failure) {
    print_error(io_, failure.text);
    if (options_.on_failure) options_.on_failure(failure);
  }

  std::string what_happened(const RunFailure& failure) const {
    const std::string ranks = fmt::format("rank {}", fmt::join(failure.stopped, ", "));
    const double grace = options_.grace.count(), seconds = failure.seconds.count();
    if (failure.code == kPeerFailed) {
      if (!failure.stopped.empty()) {
        return fmt::format("{} ({}): hung; stopped {} s after rank {} gave up waiting at {:.1f} s",
                           ranks, failure.host, grace, failure.rank, seconds);
      }
      return fmt::format("rank {} ({}): gave up waiting for its peers after {:.1f} s{}",
                         failure.rank, failure.host, seconds, others_text());
    }
    const std::string end = failure.signal.empty()
                                ? fmt::format("ended with exit code {}", *failure.code)
                                : "killed by " + failure.signal;
    return fmt::format(
        "rank {} ({}): {} after {:.1f} s{}", failure.rank, failure.host, end, seconds,
        failure.stopped.empty() ? others_text()
                                : fmt::format("; stopped {} s later: {}", grace, ranks));
  }

  std::string others_text() const {
    return options_.workers > 1 ? "; the other workers have stopped" : "";
  }

  static std::string hint(const RunFailure& failure) {
    if (failure.signal != "SIGKILL") return "";
    return "; SIGKILL may come from the kernel when memory runs out, see dmesg";
  }

  // Returns the last output of the worker that failed by itself, or else that of the first rank
  // that noticed, which says which operation was interrupted.
  std::string quotation(const WorkerProcess& worker) const {
    if (!worker.exit().by_signal) {
      return worker.last_lines().empty() ? "" : fmt::format("; it wrote: {}", last_output(worker));
    }
    const auto observer = std::ranges::find_if(failures_, [&](const Failure& failure) {
      return failure.worker != &worker && !failure.worker->last_lines().empty();
    });
    if (observer == failures_.end()) return "";
    return fmt::format("; rank {} wrote: {}", observer->worker->rank(),
                       last_output(*observer->worker));
  }

  static std::string_view last_output(const WorkerProcess& worker) {
    std::string_view line = worker.last_lines().back();
    if (line.starts_with(kErrorPrefix)) line.remove_prefix(kErrorPrefix.size());
    return line;
  }

  int report_hung_ranks() {
    RunFailure failure;
    failure.host = this_host();
    failure.seconds = now() - start_;
    failure.stopped = stopped_ranks_;
    failure.text = fmt::format(
        "rank {} ({}): did not end after the run; stopped {} s after another "
        "worker had succeeded",
        fmt::join(failure.stopped, ", "), failure.host,
        (options_.timeout + options_.grace).count());
    publish(failure);
    return kRunFailed;
  }

  const LaunchOptions& options_;
  Io& io_;
  Relay relay_;
  Seconds start_;
  SignalEvents signals_;  // installed before any worker starts, so that no Ctrl-C is missed
  std::deque<WorkerProcess> workers_;
  std::vector<Failure> failures_;   // in the order in which they ended
  std::vector<int> stopped_ranks_;  // ranks that did not end by themselves
  std::optional<Seconds> deadline_;
  int sent_signal_ = 0;  // the last signal to the workers; 0: none
  bool interrupted_ = false;
};

}  // namespace

int launch_workers(const LaunchOptions& options, Io& io) try {
  return JobMonitor(options, io).run();
} catch (const std::system_error& error) {  // for example, too many open files
  print_error(io, error.what());
  return kRunFailed;
}

}  // namespace thinwire::launch
