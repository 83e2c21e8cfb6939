#include "trainer/counters.h"

#include <algorithm>
#include <cmath>

#include "thinwire/collective.h"
#include "trainer/stragglers.h"

namespace thinwire::trainer {
namespace {

void sum_times(std::span<const Counters> all, SyncMode sync_mode, TrainResult& result) {
  const auto workers = static_cast<double>(all.size());
  double wire = 0, wait = 0, fastest_wire = all[0].wire;
  for (const Counters& each : all) {
    result.total = std::max(result.total, Seconds(each.time));
    result.compute += Seconds(each.compute / workers);
    result.codec += Seconds(each.codec / workers);
    wire += each.wire / workers;
    wait += each.wait / workers;
    fastest_wire = std::min(fastest_wire, each.wire);
  }
  // The worker that is last in each exchange does not wait, so its time is the transfer; the
  // additional time of the others is waiting. Asynchronous workers have no last one, but their
  // strategy measures when it waits.
  const bool waits_for_all = sync_mode != SyncMode::asynchronous;
  result.wire = Seconds(waits_for_all ? fastest_wire : wire);
  result.wait = Seconds(waits_for_all ? wire - fastest_wire : wait);
}

}  // namespace

void sum_counters(Transport& wire, const Counters& mine, Seconds aside, SyncMode sync_mode,
                  TrainResult& result) {
  std::vector<Counters> all(static_cast<std::size_t>(wire.size()));
  std::vector<Seconds> asides(all.size());
  allgather(wire, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  allgather(wire, std::as_bytes(std::span(&aside, 1)), std::as_writable_bytes(std::span(asides)));
  sum_times(all, sync_mode, result);

  std::vector<WorkerTimes> times;
  std::uint64_t steps = 0, samples = 0, skipped = 0;
  for (const Counters& each : all) {
    times.push_back({Seconds(each.compute) + asides[times.size()], Seconds(each.wire)});
    result.bytes_sent += each.bytes_sent;
    steps += each.steps;
    samples += each.samples;
    skipped += each.skipped;
  }
  result.stragglers = late_workers(times, result.total);
  for (LateWorker& late : result.stragglers) late.host = wire.host(late.rank);
  const auto workers = static_cast<std::uint64_t>(wire.size());
  result.steps = (steps + workers / 2) / workers;
  result.samples = sync_mode == SyncMode::asynchronous ? samples : mine.samples;
  result.skipped_steps = sync_mode == SyncMode::synchronous ? mine.skipped : skipped;
  result.bytes_per_worker_step =
      static_cast<double>(result.bytes_sent) / std::max(1.0, static_cast<double>(steps));
}

}  // namespace thinwire::trainer
