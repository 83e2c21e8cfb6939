#include "report/task_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "thinwire/error.h"

namespace thinwire::report {
namespace {

// Reads one example after the other into memory of its own.
class Reader {
 public:
  explicit Reader(const trainer::Dataset& data)
      : data_(data),
        pixels_(data.shape().floats()),
        tokens_(data.shape().tokens()),
        labels_(data.shape().labels()) {}

  void read(std::size_t index) { data_.read(index, nullptr, {pixels_, tokens_, labels_}); }

  std::span<const std::int64_t> labels() const { return labels_; }
  std::uint64_t hash(std::uint64_t before) const {
    const std::uint64_t parts[] = {before, base::hash64(std::as_bytes(std::span(pixels_))),
                                   base::hash64(std::as_bytes(std::span(tokens_))),
                                   base::hash64(std::as_bytes(std::span(labels_)))};
    return base::hash64(std::as_bytes(std::span(parts)));
  }

 private:
  const trainer::Dataset& data_;
  std::vector<float> pixels_;
  std::vector<std::int64_t> tokens_, labels_;
};

std::uint64_t hash_of(const trainer::Dataset& data, std::uint64_t before) {
  Reader reader(data);
  for (std::size_t i = 0; i < data.size(); ++i) {
    reader.read(i);
    before = reader.hash(before);
  }
  return before;
}

}  // namespace

double chance(const trainer::Dataset& test) {
  std::map<std::int64_t, std::size_t> counts;
  std::size_t all = 0, most = 0;
  Reader reader(test);
  for (std::size_t i = 0; i < test.size(); ++i) {
    reader.read(i);
    for (const std::int64_t label : reader.labels()) most = std::max(most, ++counts[label]);
    all += reader.labels().size();
  }
  return all == 0 ? 0 : static_cast<double>(most) / static_cast<double>(all);
}

std::string fingerprint(const trainer::DataPair& data) {
  return fmt::format("{} + {}, {:016x}", data.train->size(), data.test->size(),
                     hash_of(*data.test, hash_of(*data.train, 0)));
}

void check_utf8(const std::vector<std::string>& words) {
  using Json = nlohmann::json;
  for (const std::string& word : words) {
    try {
      static_cast<void>(Json(word).dump());
    } catch (const Json::type_error&) {
      throw ConfigError(fmt::format(
          "{}: reports are UTF-8, and this is not; give the file or directory another name",
          Json(word).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)));
    }
  }
}

}  // namespace thinwire::report
