// Log messages of the library that wait for the caller to take them.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "thinwire/types.h"

namespace thinwire::c_api {

// Thread-safe. Keeps the newest messages if nobody takes them.
class LogMessages {
 public:
  struct Message {
    LogLevel level;
    std::string text;
  };

  void add(LogLevel level, std::string_view text) {
    constexpr std::size_t kMost = 1000;
    const std::lock_guard lock(mutex_);
    if (messages_.size() == kMost) messages_.pop_front();
    messages_.push_back({level, std::string(text)});
  }
  // Passes the oldest message, or null if there is none, to `use`, and removes it unless that
  // throws.
  template <class Use>
  void take_oldest(Use use) {
    const std::lock_guard lock(mutex_);
    use(messages_.empty() ? nullptr : &messages_.front());
    if (!messages_.empty()) messages_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::deque<Message> messages_;
};

}  // namespace thinwire::c_api
