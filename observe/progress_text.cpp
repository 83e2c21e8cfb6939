#include "observe/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.h"

namespace thinwire::observe {
namespace {

double number(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : std::nan("");
}

// Returns the text, or nothing if the field is unknown.
template <class Format>
std::string known(const Json& event, const char* key, Format format) {
  const double value = number(event, key);
  return std::isnan(value) ? "" : format(value);
}

}  // namespace

std::string step_text(const Json& event) {
  const double steps = number(event, "steps");
  const double bytes = number(event, "bytes_total");
  return fmt::format("epoch {:.2f}  step {:.0f}/{:.0f}  loss {:.4f}  {:.0f} samples/s  {} sent{}",
                     number(event, "epoch"), std::min(number(event, "position"), steps), steps,
                     number(event, "loss"), number(event, "samples_per_second"),
                     base::readable_bytes(std::isnan(bytes) ? 0 : bytes),
                     known(event, "seconds_left", [](double left) {
                       return fmt::format("  {} left", base::readable_time(Seconds(left)));
                     }));
}

std::string evaluated_text(const Json& event) {
  return fmt::format("epoch {:.2f}  step {:.0f}{}  test loss {:.4f}  test accuracy {:.2f} %",
                     number(event, "epoch"), number(event, "position"),
                     known(event, "train_loss",
                           [](double loss) { return fmt::format("  train loss {:.4f}", loss); }),
                     number(event, "test_loss"), 100 * number(event, "test_accuracy"));
}

}  // namespace thinwire::observe
