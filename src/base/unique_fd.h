// A file descriptor with one owner.
#pragma once

#include <utility>

namespace thinwire::base {

class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership of `fd`; a negative number, such as the result of a failed call, means none.
  explicit UniqueFd(int fd) noexcept : fd_(fd < 0 ? -1 : fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }  // -1 if there is none
  explicit operator bool() const noexcept { return fd_ >= 0; }

  // Returns the descriptor, which the caller now owns.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  // Closes the descriptor, without changing errno, and takes ownership of another one.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace thinwire::base
