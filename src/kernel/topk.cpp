#include "kernel/topk_reference.h"
#include "thinwire/sparse.h"

namespace thinwire {

struct TopK::State {
  Work work;
};

TopK::TopK() : state_(std::make_unique<State>()) {}
TopK::~TopK() = default;
TopK::TopK(TopK&&) noexcept = default;
TopK& TopK::operator=(TopK&&) noexcept = default;

const TopK::Work& TopK::work() const noexcept { return state_->work; }

void TopK::select(const Accumulation& accumulation, std::size_t k, Sparse& out) {
  out = kernel::reference::select(accumulation, k);
  state_->work.candidates = accumulation.gradient.size();
}

}  // namespace thinwire
