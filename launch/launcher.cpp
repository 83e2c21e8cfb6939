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

// Rank 0's listening socket. Made here and inherited, so that no one else can take the port between
// its choice and its use.
struct MasterSocket {
  Descriptor socket;
  std::uint16_t port = 0;

  MasterSocket() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (socket.number() < 0 || bind(socket.number(), raw, length) != 0 ||
        listen(socket.number(), SOMAXCONN) != 0 ||
        getsockname(socket.number(), raw, &length) != 0) {
      fail("a listening socket on 127.0.0.1");
    }
    port = ntohs(address.sin_port);
  }
};

// Where the handler below reports; a signal handler can reach nothing but globals.
std::atomic<int> signal_event{-1};

extern "C" void report_signal(int) {
  const int before = errno;
  const std::uint64_t one = 1;
  if (write(signal_event.load(), &one, sizeof one) < 0) {
    // The counter is full: the event is there already.
  }
  errno = before;
}

// SIGINT and SIGTERM as events instead of interruptions, for as long as this lives. A handler
// rather than a blocked signal, because threads of libraries may not block it.
class SignalEvents {
 public:
  SignalEvents() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_.number() < 0) fail("eventfd");
    signal_event = event_.number();
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

  int descriptor() const { return event_.number(); }
  // How many came since the last call.
  std::uint64_t take() {
    std::uint64_t count = 0;
    return read(event_.number(), &count, sizeof count) == sizeof count ? count : 0;
  }

 private:
  Descriptor event_;
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

// What the workers of one launch share.
struct Job {
  MasterSocket master;
  std::string token = fresh_token();  // or other users of this machine could join
  int workers = 1;
  bool terminal = false;
};

std::vector<std::string> environment_of(int rank, const Job& job) {
  std::vector<std::pair<std::string_view, std::string>> ours = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(job.workers)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(job.workers)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(job.master.port)},
      {kTokenVariable, job.token},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {kLauncherVariable, std::string(job.terminal ? kLauncherOnTerminal : kLauncherElsewhere)},
  };
  if (rank == 0) {
    ours.emplace_back(kMasterSocketVariable, std::to_string(job.master.socket.number()));
  }

  std::vector<std::string> out;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view name =
        std::string_view(*line).substr(0, std::string_view(*line).find('='));
    if (std::ranges::find(ours, name, [](const auto& o) { return o.first; }) == ours.end()) {
      out.emplace_back(*line);
    }
  }
  for (const auto& [name, value] : ours) out.push_back(fmt::format("{}={}", name, value));
  return out;
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
                            rank == 0 ? job.master.socket.number() : -1);
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
    return silent_.empty() ? kOk : report_stragglers();
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
    if (poll(events.data(), events.size(), milliseconds) < 0 && errno != EINTR) fail("poll");
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (events[1 + 2 * i].revents != 0) note_end(workers_[i]);
    }
  }

  void note_end(WorkerProcess& worker) {
    worker.reap(relay_);
    if (pressure_ != 0) return;
    if (worker.death().peaceful()) return await_others(options_.timeout + options_.grace);
    failures_.push_back({&worker, now() - start_});
    await_others(options_.grace);
  }

  void await_others(Seconds patience) {
    const Seconds limit = now() + patience;
    deadline_ = deadline_ ? std::min(*deadline_, limit) : limit;
  }

  void interrupt() {
    if (interrupted_) pressure_ = SIGTERM;  // asked twice: no more patience
    interrupted_ = true;
    escalate();
  }

  // The others did not end by themselves: first they are asked, then they are not.
  void escalate() {
    if (pressure_ == 0) {
      for (const WorkerProcess& worker : workers_) {
        if (worker.running()) silent_.push_back(worker.rank());
      }
    }
    pressure_ = pressure_ == 0 ? SIGTERM : SIGKILL;
    for (WorkerProcess& worker : workers_) worker.signal(pressure_);
    deadline_ = now() + options_.patience;
  }

  // Who died first, those that merely noticed another's death aside.
  const Failure& cause() const {
    const auto own = std::ranges::find_if(failures_, [](const Failure& failure) {
      const ProcessExit& death = failure.worker->death();
      return death.by_signal || death.number != kPeerFailed;
    });
    return own != failures_.end() ? *own : failures_.front();
  }

  int report() {
    const auto& [worker, after] = cause();
    const ProcessExit& death = worker->death();
    if (worker->last_lines().size() > (death.by_signal ? 0 : 1)) {
      print_error(io_, fmt::format("the last output of rank {}:", worker->rank()));
      for (const std::string& line : worker->last_lines()) io_.err << "  | " << line << '\n';
    }
    print_error(io_, what_happened(*worker, after) + explanation(*worker));
    return !death.by_signal && death.number == kBadUsage ? kBadUsage : kRunFailed;
  }

  std::string what_happened(const WorkerProcess& worker, Seconds after) const {
    const ProcessExit& death = worker.death();
    const bool gave_up = !death.by_signal && death.number == kPeerFailed;
    const std::string end = fmt::format(
        "rank {} {} on {} after {:.1f} s", worker.rank(),
        gave_up ? "gave up waiting for its peers" : death.describe(), this_host(), after.count());
    const std::string ranks = fmt::format("rank {}", fmt::join(silent_, ", "));
    const double grace = options_.grace.count();
    if (gave_up && !silent_.empty()) {
      return fmt::format("{} hung, and was stopped {} s after {}", ranks, grace, end);
    }
    if (!silent_.empty()) return fmt::format("{}; {} s later {} was stopped", end, grace, ranks);
    return options_.workers > 1 ? end + "; the other workers have stopped" : end;
  }

  std::string explanation(const WorkerProcess& worker) const {
    const ProcessExit& death = worker.death();
    if (!death.by_signal) {
      return worker.last_lines().empty() ? "." : fmt::format(". It said: {}", last_output(worker));
    }
    std::string text = ".";
    if (death.number == SIGKILL) {
      text += " If nobody did that, the kernel did for want of memory: see `dmesg`.";
    }
    // Who heard of it first tells what that interrupted.
    const auto witness = std::ranges::find_if(failures_, [&](const Failure& failure) {
      return failure.worker != &worker && !failure.worker->last_lines().empty();
    });
    if (witness == failures_.end()) return text;
    return text +
           fmt::format(" Rank {} said: {}", witness->worker->rank(), last_output(*witness->worker));
  }

  static std::string_view last_output(const WorkerProcess& worker) {
    std::string_view words = worker.last_lines().back();
    if (words.starts_with(kErrorPrefix)) words.remove_prefix(kErrorPrefix.size());
    return words;
  }

  int report_stragglers() {
    print_error(io_, fmt::format("rank {} hung on {} after its work was done, and was stopped {} s "
                                 "after another worker had ended in peace.",
                                 fmt::join(silent_, ", "), this_host(),
                                 (options_.timeout + options_.grace).count()));
    return kRunFailed;
  }

  const LaunchOptions& options_;
  Io& io_;
  Relay relay_;
  Seconds start_;
  SignalEvents signals_;  // before any worker starts, so that no Ctrl-C is missed
  std::deque<WorkerProcess> workers_;
  std::vector<Failure> failures_;  // in the order in which they ended
  std::vector<int> silent_;        // ranks that did not end by themselves
  std::optional<Seconds> deadline_;
  int pressure_ = 0;  // the signal that the workers were sent
  bool interrupted_ = false;
};

}  // namespace

int launch_workers(const LaunchOptions& options, Io& io) { return JobMonitor(options, io).run(); }

}  // namespace thinwire::launch
