#include "report/html_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>
#include <vector>

namespace thinwire::report {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(std::string_view problem, std::string_view tag) {
  throw std::logic_error(fmt::format("template: {} ({})", problem, tag));
}

bool is_truthy(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && !(value.is_array() && value.empty());
}

class Filler {
 public:
  explicit Filler(const Json& values) : scopes_{&values} {}

  void fill(std::string_view text) {
    while (true) {
      const std::size_t open = text.find("{{");
      out_ += text.substr(0, open);
      if (open == std::string_view::npos) return;
      text.remove_prefix(open + 2);
      if (text.starts_with('{')) {
        out_ += text_of(take(text, "}}}").substr(1));
        continue;
      }
      const std::string_view tag = take(text, "}}");
      if (tag.starts_with('#') || tag.starts_with('^')) {
        skip_line_break(text);
        fill_section(tag, take(text, fmt::format("{{{{/{}}}}}", tag.substr(1))));
        skip_line_break(text);
      } else {
        out_ += html_escaped(text_of(tag));
      }
    }
  }

  std::string result() && { return std::move(out_); }

 private:
  // Returns the text before `end` and removes both from `text`.
  static std::string_view take(std::string_view& text, std::string_view end) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) fail("missing end tag", end);
    const std::string_view taken = text.substr(0, at);
    text.remove_prefix(at + end.size());
    return taken;
  }

  static void skip_line_break(std::string_view& text) {
    if (text.starts_with('\n')) text.remove_prefix(1);
  }

  void fill_section(std::string_view tag, std::string_view body) {
    const Json& value = look_up(tag.substr(1));
    if (is_truthy(value) != tag.starts_with('#')) return;
    if (!value.is_array() || value.empty()) return fill_with(value, body);
    for (const Json& element : value) fill_with(element, body);
  }

  void fill_with(const Json& scope, std::string_view body) {
    scopes_.push_back(&scope);
    fill(body);
    scopes_.pop_back();
  }

  const Json& look_up(std::string_view name) const {
    if (name == ".") return *scopes_.back();
    for (const Json* scope : std::views::reverse(scopes_)) {
      if (!scope->is_object()) continue;
      if (const auto found = scope->find(name); found != scope->end()) return *found;
    }
    fail("unknown name", name);
  }

  std::string text_of(std::string_view name) const {
    const Json& value = look_up(name);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  std::vector<const Json*> scopes_;
  std::string out_;
};

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string fill_template(std::string_view text, const nlohmann::json& values) {
  Filler filler(values);
  filler.fill(text);
  return std::move(filler).result();
}

}  // namespace thinwire::report
