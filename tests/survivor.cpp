#include "tests/survivor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/random.h"

namespace thinwire {
namespace {

constexpr std::size_t kRows = 18, kColumns = 10, kBias = 20;

float gradient_of(int rank, std::uint64_t step, std::size_t element) {
  const auto stream = step << 16 | static_cast<std::uint64_t>(rank);
  const auto block = base::philox(3, stream, element, base::Purpose::test);
  const auto digits = static_cast<float>(block[0] >> 8);  // 24 bits
  const float value = std::ldexp(digits, -24 - static_cast<int>(block[1] % 12));
  return block[2] % 2 == 0 ? value : -value;
}

std::vector<float> read_floats(base::ByteReader& reader) {
  std::vector<float> values(reader.get<std::uint64_t>());
  const Bytes bytes = reader.take(values.size() * sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

std::string difference(std::string_view what, const std::vector<float>& found,
                       const std::vector<float>& expected) {
  if (found.size() != expected.size()) return fmt::format("the {} has another length", what);
  const auto [at, other] = std::ranges::mismatch(found, expected);
  if (at == found.end()) return "";
  return fmt::format("the {} at {} is {:a} instead of {:a}", what, at - found.begin(), *at, *other);
}

}  // namespace

SparseState read_sparse_state(Bytes checkpoint) {
  base::ByteReader reader(checkpoint, "the state of a sparse strategy");
  reader.get<std::uint32_t>();
  SparseState state;
  for (auto* part : {&state.residual, &state.velocity, &state.small_velocity}) {
    *part = read_floats(reader);
  }
  const Bytes rest = reader.take(reader.left());
  state.of_exchange.assign(rest.begin(), rest.end());
  return state;
}

SurvivorRank::SurvivorRank(Transport& wire, const std::string& spec, std::uint64_t steps)
    : wire_(wire),
      spec_(spec),
      layout_{{{"weights", 0, {kRows, kColumns}}, {"bias", kRows * kColumns, {kBias}}},
              kRows * kColumns + kBias},
      params_(layout_.numel, 0.5f),
      grads_(layout_.numel),
      // Products with powers of two are exact, so that it does not matter how they are computed.
      run_{.steps = steps, .sgd = {0.5f, 0.125f, false}},
      driver_(wire, spec, layout_, run_) {
  driver_.begin(params_);
}

void SurvivorRank::step() {
  for (std::size_t i = 0; i < grads_.size(); ++i) {
    grads_[i] = gradient_of(wire_.rank(), driver_.step(), i);
  }
  gradient_ = grads_;
  before_ = state();
  driver_.exchange(grads_, params_);
}

std::string SurvivorRank::lost() const {
  const Payload now = state();
  make_strategy(spec_)->load(now);
  if (grads_ == gradient_) return now == before_ ? "" : "the state changed, the gradients did not";
  if (std::ranges::any_of(grads_, [](float value) { return value != 0; })) {
    return "half an exchange is left in the gradients";
  }
  const SparseState found = read_sparse_state(now), expected = accumulated();
  if (found == expected) return "";
  if (found.of_exchange != expected.of_exchange)
    return spec_ + ": the state of density, guard or exchange changed";
  return fmt::format(
      "{}: {} {} {}", spec_, difference("residual", found.residual, expected.residual),
      difference("velocity", found.velocity, expected.velocity),
      difference("velocity of the bias", found.small_velocity, expected.small_velocity));
}

// As kernel/topk.h defines it. A bias that is exchanged by itself has its momentum
// afterwards.
SparseState SurvivorRank::accumulated() const {
  SparseState state = read_sparse_state(before_);
  const SgdConfig& sgd = run_.sgd;
  const std::size_t own = state.residual.size() - state.small_velocity.size();
  for (std::size_t i = 0; i < state.residual.size(); ++i) {
    float direction = gradient_[i] + sgd.weight_decay * params_[i];
    if (i < own && !state.velocity.empty()) {
      direction = state.velocity[i] = sgd.momentum * state.velocity[i] + direction;
    }
    state.residual[i] += direction;
  }
  return state;
}

Payload SurvivorRank::state() const { return driver_.save(); }

std::uint64_t SurvivorRank::operations() const {
  return wire_.traffic().messages_sent + wire_.traffic().messages_received;
}

}  // namespace thinwire
