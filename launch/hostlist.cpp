#include "launch/hostlist.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/number.h"
#include "thinwire/error.h"

namespace thinwire::launch {
namespace {

// The limit of Slurm. A larger range is a typing error and must not allocate memory.
constexpr std::size_t kMostHosts = 1 << 16;
constexpr std::size_t kLongestName = 253;  // the limit of DNS

class HostList {
 public:
  HostList(std::string_view text, std::string_view variable) : text_(text), variable_(variable) {}

  std::vector<std::string> expand() {
    std::size_t start = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text_.size(); ++i) {
      if (i == text_.size() || (text_[i] == ',' && depth == 0)) {
        expand_one("", text_.substr(start, i - start));
        start = i + 1;
      } else if (text_[i] == '[') {
        if (++depth > 1) refuse("a bracket inside a bracket");
      } else if (text_[i] == ']') {
        if (--depth < 0) refuse("a ']' without a '['");
      }
    }
    if (depth != 0) refuse("a '[' without a ']'");
    return std::move(hosts_);
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const {
    throw ConfigError(fmt::format("{}={}: {}; a host list looks like node1 or node[01-03,7]",
                                  variable_, text_, reason));
  }

  // `rest` is one item of the list. This function expands its first bracket and recurses for the
  // others.
  void expand_one(const std::string& prefix, std::string_view rest) {
    const auto open = rest.find('[');
    if (open == std::string_view::npos) {
      if (prefix.empty() && rest.empty()) refuse("an empty host name");
      if (hosts_.size() == kMostHosts) refuse("too many hosts");
      if (prefix.size() + rest.size() > kLongestName) {
        refuse(fmt::format("a host name of more than {} characters", kLongestName));
      }
      hosts_.push_back(prefix + std::string(rest));
      return;
    }
    const auto close = rest.find(']', open);
    if (close == std::string_view::npos) refuse("a '[' without a ']'");
    const std::string head = prefix + std::string(rest.substr(0, open));
    std::string_view ranges = rest.substr(open + 1, close - open - 1);
    while (true) {
      const auto comma = ranges.find(',');
      expand_range(head, ranges.substr(0, comma), rest.substr(close + 1));
      if (comma == std::string_view::npos) return;
      ranges.remove_prefix(comma + 1);
    }
  }

  // The numbers of "03-05" have as many digits as the first one.
  void expand_range(const std::string& head, std::string_view range, std::string_view rest) {
    const auto dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    const std::uint64_t from = number(first), to = number(last);
    if (to < from) refuse(fmt::format("the range {} runs backwards", range));
    if (to - from >= kMostHosts) refuse("too many hosts");
    for (std::uint64_t i = from; i <= to; ++i) {
      expand_one(fmt::format("{}{:0{}}", head, i, first.size()), rest);
    }
  }

  std::uint64_t number(std::string_view text) const {
    const auto value = base::parse_number<std::uint64_t>(text);
    if (!value) refuse(fmt::format("'{}' is not a number", text));
    return *value;
  }

  std::string_view text_;
  std::string_view variable_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list, std::string_view variable) {
  return HostList(list, variable).expand();
}

}  // namespace thinwire::launch
