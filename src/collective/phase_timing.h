// How a collective lets its caller measure its computing.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace thinwire::collective {

// A reference to a function without arguments. It owns nothing and allocates nothing; the function
// must outlive it.
class Work {
 public:
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, Work>)
      Work(Function&& function)  // NOLINT: implicit, so that a lambda can be passed
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* target) { (*static_cast<std::remove_reference_t<Function>*>(target))(); }) {}

  void operator()() const { call_(function_); }

 private:
  void* function_;
  void (*call_)(void*);
};

class PhaseTiming {
 public:
  // Runs work that computes only. Must call `work` exactly once, on the same thread, and pass on
  // what it throws.
  virtual void compute(Work work) = 0;

 protected:
  ~PhaseTiming() = default;
};

}  // namespace thinwire::collective
