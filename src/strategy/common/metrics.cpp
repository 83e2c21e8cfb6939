#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire {

void sum_metrics(Transport& wire, std::vector<Metric>& metrics) {
  std::vector<double> mine, all;
  for (const Metric& metric : metrics) mine.insert(mine.end(), {metric.amount, metric.of});
  all.resize(mine.size() * static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    metrics[i].amount = metrics[i].of = 0;
    for (std::size_t at = 2 * i; at < all.size(); at += mine.size()) {
      metrics[i].amount += all[at];
      metrics[i].of += all[at + 1];
    }
  }
}

}  // namespace thinwire
