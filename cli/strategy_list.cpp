#include "cli/strategy_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/spec.h"
#include "thinwire/error.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::vector<std::string> parse_strategies(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::string spec = base::Spec::parse(word).str();
    make_strategy(spec);
    if (std::ranges::find(out, spec) != out.end()) {
      throw ConfigError(fmt::format("--strategies: '{}' is there twice", spec));
    }
    out.push_back(spec);
  }
  if (out.empty()) {
    throw ConfigError("--strategies: at least one is needed, such as \"gtopk; qsgd:bits=2\"");
  }
  return out;
}

}  // namespace thinwire::cli
