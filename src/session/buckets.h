// Ranges of a model's tensors that are exchanged one by one.
#pragma once

#include <vector>

#include "thinwire/session.h"

namespace thinwire::session {

// Returns at most `count` ranges of whole tensors that together are the layout, of about equal
// length. Throws ConfigError if the tensors do not follow each other without gaps.
std::vector<Bucket> split_layout(const Layout& layout, std::size_t count);

}  // namespace thinwire::session
