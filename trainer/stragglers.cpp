#include "trainer/stragglers.h"

#include <algorithm>

#include "thinwire/stats.h"

namespace thinwire::trainer {
namespace {

LateWorker compare_with_others(std::span<const WorkerTimes> workers, std::size_t rank) {
  const WorkerTimes& self = workers[rank];
  std::vector<double> others_busy;
  Seconds waited{0};
  for (std::size_t other = 0; other < workers.size(); ++other) {
    if (other == rank) continue;
    others_busy.push_back(workers[other].busy.count());
    const Seconds sooner = self.busy - workers[other].busy;
    const Seconds longer_in_exchanges = workers[other].wire - self.wire;
    waited += std::max(Seconds(0), std::min(sooner, longer_in_exchanges));
  }
  LateWorker late;
  late.rank = static_cast<int>(rank);
  late.waited = waited / static_cast<double>(others_busy.size());
  late.compute_ratio = self.busy.count() / std::max(summarize(others_busy).median, 1e-9);
  return late;
}

}  // namespace

std::vector<LateWorker> late_workers(std::span<const WorkerTimes> workers, Seconds total) {
  std::vector<LateWorker> named;
  if (workers.size() < 2) return named;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const LateWorker late = compare_with_others(workers, rank);
    if (late.waited > kWorthNaming * total) named.push_back(late);
  }
  std::ranges::stable_sort(named, std::greater<>(), &LateWorker::waited);
  return named;
}

}  // namespace thinwire::trainer
