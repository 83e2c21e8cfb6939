// Records of posted operations, which are identified by small numbers and reused. It allocates only
// when more operations are in flight than ever before.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace thinwire::transport {

template <class Record>
class TicketPool {
 public:
  // Returns the ticket of a record, which has the contents that its last user left. The address of
  // the record is stable until release().
  std::uint32_t acquire() {
    if (free_.empty()) {
      records_.emplace_back();
      free_.reserve(records_.size());
      return static_cast<std::uint32_t>(records_.size() - 1);
    }
    const std::uint32_t ticket = free_.back();
    free_.pop_back();
    return ticket;
  }
  void release(std::uint32_t ticket) { free_.push_back(ticket); }
  Record& operator[](std::uint32_t ticket) { return records_[ticket]; }

  auto begin() { return records_.begin(); }
  auto end() { return records_.end(); }

 private:
  std::deque<Record> records_;
  std::vector<std::uint32_t> free_;
};

}  // namespace thinwire::transport
