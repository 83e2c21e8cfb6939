// Ranks are the processes of MPI_COMM_WORLD, started by mpirun or srun.
//
// MPI can be initialized once per process. The first run_mpi initializes it, and MPI_Finalize is
// called when the process exits. In between, run_mpi may be called any number of times, by all
// ranks together. If the program has initialized MPI itself, it also finalizes it.
//
// If a worker throws, the exception leaves run_mpi at once, without MPI_Finalize, which would wait
// for peers that wait for this rank. The caller reports the error and ends the process with an exit
// code other than 0; mpirun then ends the other ranks and returns that code (srun:
// --kill-on-bad-exit). Peers that still run notice it by their deadlines. A later run_mpi in such a
// process is refused.
//
// MPI has no deadline for MPI_Init, during which mpirun monitors the ranks, nor for MPI_Finalize.
// So before MPI_Finalize all ranks inform rank 0 that they have finished, with the usual timeout. A
// process that is then still blocked in MPI_Finalize after the same time ends without it.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "transport/backends.h"
#include "transport/lost_while_leaving.h"
#include "transport/mpi/mpi_transport.h"

namespace thinwire::transport {
namespace {

// The state of MPI in this process. It is global because MPI is.
struct ProcessState {
  std::atomic<bool> failed{false};           // a worker threw
  std::atomic<Seconds> timeout{Seconds(0)};  // the timeout of the last run
  MpiHealth health;
  // For the final messages, which are sent even if a lane of the run is stuck.
  MpiHealth health_at_end;
} process;

constexpr std::chrono::milliseconds kErrorOutputTime{500};
constexpr Seconds kFinalizeTime{5};  // if all ranks call MPI_Finalize, on a busy machine

extern "C" void finalize_mpi(int exit_code, void*) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (exit_code == 0 && !process.failed && finalized == 0) {
    // A rank may have been stopped before its MPI_Finalize. The other ranks cannot report which
    // one, because they are in MPI_Finalize, too.
    std::thread([] {
      std::this_thread::sleep_for(process.timeout.load() + kFinalizeTime);
      _exit(EXIT_FAILURE);
    }).detach();
    MPI_Finalize();
  }
  // A process that failed must end without waiting for the others, so that mpirun ends them. It
  // only leaves them a moment to print their errors: their deadlines may pass at the same time,
  // each for another rank, and all errors together show which rank is stuck.
  if (process.failed) std::this_thread::sleep_for(kErrorOutputTime);
}

ErrorFields joining_needs(Remedy remedy) {
  ErrorFields fields;
  fields.operation = "join";
  fields.remedy = remedy;
  return fields;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw TransportError(TransportError::Kind::join,
                       fmt::format("transport mpi: {} failed ({})", call, mpi_text(code)),
                       joining_needs(Remedy::none));
}

// Returns text such as "Open MPI v4.1.4".
std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view all(text, static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

void initialize() {
  int initialized = 0, finalized = 0, threads = MPI_THREAD_SINGLE, found = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  const bool failed = process.failed || process.health.stuck;
  if (finalized != 0 || failed) {
    throw TransportError(TransportError::Kind::join, kNoRank,
                         fmt::format("transport mpi: {}; MPI cannot be started again in a process: "
                                     "start the job again",
                                     failed ? "an earlier run over MPI failed in this process"
                                            : "MPI was finalized in this process"));
  }
  if (initialized == 0) {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads), "MPI_Init_thread");
    on_exit(finalize_mpi, nullptr);
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  check(MPI_Query_thread(&threads), "MPI_Query_thread");
  if (threads < MPI_THREAD_MULTIPLE) {
    throw ConfigError(
        fmt::format("transport mpi: {} does not support MPI_THREAD_MULTIPLE here; use a build with "
                    "thread support",
                    library()),
        joining_needs(Remedy::choose_transport));
  }
  int* highest_tag = nullptr;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &found), "MPI_Comm_get_attr");
  if (found == 0 || *highest_tag < kHighestMpiTag) {
    throw ConfigError(fmt::format("transport mpi: {} supports too few tags (up to {} are needed)",
                                  library(), kHighestMpiTag),
                      joining_needs(Remedy::choose_transport));
  }
}

void require_agreement(const JoinOptions& options, int rank, int size) {
  if (size == 1 && options.size > 1) {
    throw ConfigError(fmt::format(
        "transport mpi: {0} workers need an MPI launcher, but this process is alone; start it with "
        "`mpirun -n {0} ...` or `srun -n {0} ...`; if that was done, the launcher belongs to "
        "another MPI than {1}, with which thinwire was built",
        options.size, library()));
  }
  if (size != options.size) {
    throw TransportError(TransportError::Kind::join,
                         fmt::format("transport mpi: the MPI launcher started {} processes, but {} "
                                     "workers were asked for; start as many as there are workers",
                                     size, options.size),
                         joining_needs(Remedy::let_launcher_number));
  }
  if (rank != options.rank) {
    throw TransportError(
        TransportError::Kind::join,
        fmt::format("transport mpi: MPI made this process rank {}, but rank {} was "
                    "asked for; the MPI launcher numbers the processes",
                    rank, options.rank),
        joining_needs(Remedy::let_launcher_number));
  }
}

std::vector<std::string> gather_hosts(MPI_Comm comm, int size, const Collective& joining) {
  using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  const auto ranks = static_cast<std::size_t>(size);
  // If the other ranks do not take part, this memory is never freed, because MPI may still write to
  // it.
  auto names = std::make_unique<std::vector<Name>>(ranks + 1);
  Name& own = names->back();
  int length = 0;
  joining.check(MPI_Get_processor_name(own.data(), &length));
  MPI_Request request = MPI_REQUEST_NULL;
  joining.check(MPI_Iallgather(own.data(), sizeof(Name), MPI_CHAR, names->data(), sizeof(Name),
                               MPI_CHAR, comm, &request));
  try {
    finish(request, joining, process.health.stuck);
  } catch (...) {
    static_cast<void>(names.release());
    throw;
  }
  std::vector<std::string> hosts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) hosts[rank] = (*names)[rank].data();
  return hosts;
}

// At the end, every rank informs rank 0 that it has finished its work; then rank 0 informs them
// which rank is missing, if any.
constexpr Tag kFinished{0};
constexpr Seconds kReplyTime{1};

int collect_finished(Transport& wire, Seconds timeout) {
  const std::unique_ptr<Transport> answers = wire.clone_handle();  // usable if `wire` fails
  const Seconds deadline = wire.now() + timeout;
  std::int32_t missing = kNoRank;
  try {
    for (int from = 1; from < wire.size(); ++from) {
      wire.set_timeout(std::max(deadline - wire.now(), Seconds(1e-3)));
      wire.recv(from, kFinished, {});
    }
  } catch (const TransportError& error) {
    if (error.kind() != TransportError::Kind::deadline) throw;
    missing = error.peer();
  }
  for (int to = 1; to < wire.size(); ++to) {
    if (to != missing) answers->send(to, kFinished, std::as_bytes(std::span(&missing, 1)));
  }
  return missing;
}

int await_reply(Transport& wire, Seconds timeout) {
  std::int32_t missing = kNoRank;
  wire.send(0, kFinished, {});
  wire.set_timeout(std::min(timeout + kReplyTime, Transport::kLongestTimeout));
  wire.wait(wire.post_recv(0, kFinished, std::as_writable_bytes(std::span(&missing, 1))));
  return missing;
}

void leave_group(Transport& wire, Seconds timeout) {
  const int missing =
      wire.rank() == 0 ? collect_finished(wire, timeout) : await_reply(wire, timeout);
  if (missing == kNoRank) return;
  throw lost_while_leaving(wire, missing, timeout,
                           fmt::format("no sign of it for {:.1f} s", timeout.count()));
}

}  // namespace

void run_mpi(const BackendOptions& options, const Worker& worker) {
  initialize();
  int rank = 0, size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  require_agreement(options, rank, size);
  process.timeout = options.timeout;
  process.health.silent = kNoRank;
  try {
    const std::string what = fmt::format("rank {} of {}: joining", rank, size);
    const Collective joining{what, TransportError::Kind::join, options.join_timeout, rank, "join"};
    const MPI_Comm comm = duplicate(MPI_COMM_WORLD, joining, process.health.stuck);
    const std::vector<std::string> hosts = gather_hosts(comm, size, joining);
    MpiTransport transport(comm, rank, hosts, process.health);
    MpiTransport end(duplicate(comm, joining, process.health.stuck), rank, hosts,
                     process.health_at_end);
    transport.set_timeout(options.timeout);
    worker(transport);
    leave_group(end, options.timeout);
  } catch (...) {
    process.failed = true;
    throw;
  }
}

}  // namespace thinwire::transport
