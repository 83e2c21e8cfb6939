// The names that a user can choose from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::cli {

// Returns the lists that `thinwire list` knows: strategies, transports, models, data.
std::vector<std::string> list_names();

// Returns the names of one of these lists. Throws ConfigError if there is no such list.
std::vector<std::string> names_in_list(std::string_view list);

}  // namespace thinwire::cli
