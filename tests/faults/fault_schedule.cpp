#include "tests/faults/fault_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::faults {
namespace {

constexpr int kMpiEvery = 6;
constexpr std::uint32_t kJoiningOneIn = 8;
constexpr std::uint32_t kLastStep = 60;
constexpr Seconds kLongestDelay{0.05}, kLongestDelayWhileJoining{1.5};

bool built(std::string_view name) {
  return std::ranges::any_of(transport_backends(),
                             [&](const TransportBackend& backend) { return backend.name == name; });
}

void draw(Fault& fault, std::uint64_t seed) {
  const auto number = static_cast<std::uint64_t>(fault.number);
  const auto where = base::philox(seed, number, 0, base::Purpose::fault);
  const auto when = base::philox(seed, number, 1, base::Purpose::fault);
  fault.victim = static_cast<int>(where[0] % kWorkers);
  fault.choice = where[1];
  fault.continued = where[2] % 2 == 0;
  const bool signal = fault.kind == Kind::kill || fault.kind == Kind::stop;
  const bool has_deadline = fault.transport != "mpi" || fault.kind == Kind::kill;  // MPI_Init: none
  const bool joining = signal && has_deadline && when[0] % kJoiningOneIn == 0;
  fault.step = joining ? 0 : 1 + when[1] % kLastStep;
  fault.delay = (joining ? kLongestDelayWhileJoining : kLongestDelay) * base::unit_float(when[2]);
}

}  // namespace

std::string_view word(Kind kind) {
  switch (kind) {
    case Kind::kill:
      return "kill";
    case Kind::stop:
      return "stop";
    case Kind::close:
      return "close";
    case Kind::full:
      return "full";
  }
  return "";
}

std::string Fault::describe() const {
  const std::string when = step == 0 ? "while joining" : fmt::format("at step {}", step);
  return fmt::format("{}: {}, {}, {}{} of rank {} {}", number, transport, strategy, word(kind),
                     kind == Kind::stop && continued ? " and continue" : "", victim, when);
}

std::vector<Fault> fault_schedule(std::uint64_t seed, int count, const std::vector<Kind>& kinds) {
  const auto words = strategies();
  std::vector<Kind> mpi_kinds = kinds;
  std::erase(mpi_kinds, Kind::close);  // ranks on one machine communicate through memory
  int over_gloo = 0, over_mpi = 0;
  std::vector<Fault> faults;
  for (int number = 1; number <= count; ++number) {
    Fault fault;
    fault.number = number;
    const bool mpi = built("mpi") && number % kMpiEvery == 0;
    const auto index = static_cast<std::size_t>(mpi ? over_mpi++ : over_gloo++);
    const auto& allowed = mpi ? mpi_kinds : kinds;
    fault.transport = mpi ? "mpi" : "gloo";
    fault.strategy = words[index % words.size()].name;
    fault.kind = allowed[(index % words.size() + index / words.size()) % allowed.size()];
    draw(fault, seed);
    faults.push_back(fault);
  }
  return faults;
}

}  // namespace thinwire::faults
