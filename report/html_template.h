// Fills an HTML template with values. The syntax is a small subset of Mustache:
//   {{name}}              the value with that name, escaped for text and quoted attributes
//   {{{name}}}            the same without escaping, for text that is safe already
//   {{#name}}...{{/name}} the part between the tags, once for each element of an array, or once if
//                         the value is anything else but null, false, "" or an empty array
//   {{^name}}...{{/name}} the part between the tags if {{#name}} would leave it out
//   {{.}}                 the current element of an array
// A name is looked up in the innermost element first, then in the elements around it. A section
// cannot contain another section with the same name. A line break right after the tag of a section
// is not copied.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace thinwire::report {

// Escapes text for use between tags and in quoted attributes.
std::string html_escaped(std::string_view text);

// Returns the template with all tags replaced. Values are never read as templates themselves.
// Throws std::logic_error if a tag is not closed, or names a value that does not exist.
std::string fill_template(std::string_view text, const nlohmann::json& values);

}  // namespace thinwire::report
