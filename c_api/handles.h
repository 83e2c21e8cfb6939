// The objects behind the handles of the C API.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "c_api/usage_error.h"

namespace thinwire::c_api {

// Returns a number that it has not returned before.
inline std::uint64_t next_handle() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Numbers for objects; a number is never given twice, also not for an object of another kind.
// Thread-safe. After fork() the objects belong to the parent, because their threads do not exist in
// the child; so a child that was forked while there were objects may not have any of its own.
template <class T>
class Handles {
 public:
  explicit Handles(const char* kind) : kind_(kind) {}

  // Throws UsageError if there are objects that belong to another process. It is called before an
  // object is made, because that starts threads.
  void require_may_add() const {
    if (own_process()) return;
    throw UsageError(fmt::format(
        "{0}: this process was forked while its parent had an open {0}, so it can have none; fork "
        "before the parent has one or after it has closed all of them",
        kind_));
  }
  std::uint64_t add(std::shared_ptr<T> object) {
    require_may_add();
    const std::lock_guard lock(mutex_);
    const std::uint64_t handle = next_handle();
    objects_[handle] = std::move(object);
    process_ = getpid();
    return handle;
  }
  // Throws UsageError if the handle is unknown, closed, or of the parent process.
  std::shared_ptr<T> find(std::uint64_t handle) const {
    require_own_process();
    const std::lock_guard lock(mutex_);
    return entry(handle)->second;
  }
  std::shared_ptr<T> take(std::uint64_t handle) {
    require_own_process();
    const std::lock_guard lock(mutex_);
    const auto found = entry(handle);
    std::shared_ptr<T> out = found->second;
    objects_.erase(found);
    note_if_empty();
    return out;
  }
  // Takes all objects for which `chosen(object)` is true.
  template <class Chosen>
  std::vector<std::shared_ptr<T>> take_if(Chosen chosen) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> out;
    std::erase_if(objects_, [&](const auto& entry) {
      if (!chosen(*entry.second)) return false;
      out.push_back(entry.second);
      return true;
    });
    note_if_empty();
    return out;
  }

 private:
  using Objects = std::map<std::uint64_t, std::shared_ptr<T>>;

  // Returns whether there are no objects or they are those of this process. Does not lock: a thread
  // of the parent may have held the mutex when this process was forked.
  bool own_process() const noexcept {
    const pid_t process = process_;
    return process == 0 || process == getpid();
  }
  void require_own_process() const {
    if (own_process()) return;
    throw UsageError(kind_ + ": the handle belongs to the process that this one was forked from");
  }
  void note_if_empty() noexcept {
    if (objects_.empty()) process_ = 0;
  }

  typename Objects::const_iterator entry(std::uint64_t handle) const {
    const auto found = objects_.find(handle);
    if (found != objects_.end()) return found;
    throw UsageError(kind_ + (handle == 0 ? ": the handle is 0, which is no handle"
                                          : ": the handle is unknown or was closed"));
  }

  const std::string kind_;
  mutable std::mutex mutex_;
  std::atomic<pid_t> process_{0};  // of the objects; 0: there are none
  Objects objects_;
};

}  // namespace thinwire::c_api
