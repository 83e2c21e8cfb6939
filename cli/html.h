// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::cli {

// Safe between tags and inside quoted attributes, wherever it came from.
inline std::string html_escaped(std::string_view text) {
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

}  // namespace thinwire::cli
