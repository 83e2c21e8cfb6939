// A transport that injects one fault, for tests. The spec has the kind of fault, the rank and the
// number of the operation (posted sends and receives, counted from 0 over all lanes):
//   kill:rank=1,at=20              the process ends by SIGKILL
//   fail:rank=1,at=20              the operation throws
//   stall:rank=1,at=20,seconds=5   the operation starts late
//   drop:rank=1,at=20              a message is never sent, though it seems to be
//   corrupt:rank=1,at=20           one bit of a message is wrong
// The last two need a message: they apply to the first send from that operation on, `corrupt` to
// the first that is not empty.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/random.h"
#include "base/spec.h"
#include "transport/backends.h"

namespace thinwire::transport {
namespace {

enum class Action { kill, fail, drop, stall, corrupt };

struct FaultOptions {
  Action action;
  int rank;
  std::uint64_t at;
  Seconds stall;

  static FaultOptions parse(std::string_view text, int size) {
    static const std::vector<std::string> kActions = {"kill", "fail", "drop", "stall", "corrupt"};
    base::Spec spec = base::Spec::parse(text);
    const auto found = std::find(kActions.begin(), kActions.end(), spec.name());
    if (found == kActions.end())
      throw ConfigError(base::unknown_name("fault", spec.name(), kActions));
    FaultOptions options{static_cast<Action>(found - kActions.begin()),
                         static_cast<int>(spec.integer("rank", 0, 0, size - 1)),
                         static_cast<std::uint64_t>(spec.integer("at", 0, 0, INT64_MAX)),
                         Seconds(spec.number("seconds", 1, 0, 1e6))};
    spec.reject_unused();
    return options;
  }
};

// The state that the lanes of a rank share.
struct FaultState {
  std::atomic<std::uint64_t> posted{0};  // operations so far
  std::atomic<bool> fired{false};
};

class Faulty final : public Transport {
 public:
  Faulty(std::unique_ptr<Transport> inner, const FaultOptions& options)
      : Transport(inner->rank(), inner->hosts(), inner->runtime()),
        fault_(options),
        inner_(std::move(inner)),
        state_(std::make_shared<FaultState>()) {
    set_timeout(inner_->timeout());
  }
  Faulty(const Faulty& first, std::unique_ptr<Transport> inner)
      : Transport(first, first.runtime()),
        fault_(first.fault_),
        inner_(std::move(inner)),
        state_(first.state_) {}

 private:
  static constexpr std::uint32_t kDropped = UINT32_MAX;

  // Counts an operation. Returns true if the fault applies to it, which happens once. `message` is
  // null for a receive.
  bool due(const Bytes* message) {
    const bool late_enough = (state_->posted)++ >= fault_.at;
    if (rank() != fault_.rank || !late_enough) return false;
    if (fault_.action == Action::drop && message == nullptr) return false;
    if (fault_.action == Action::corrupt && (message == nullptr || message->empty())) return false;
    return !state_->fired.exchange(true);
  }
  void inject() {
    if (fault_.action == Action::kill) std::raise(SIGKILL);
    if (fault_.action == Action::stall) sleep(fault_.stall);
    if (fault_.action == Action::fail) {
      throw Error(fmt::format("rank {} fails at operation {} as planned", rank(), fault_.at));
    }
  }

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    if (due(&message)) {
      inject();
      if (fault_.action == Action::drop) return kDropped;
      if (fault_.action == Action::corrupt) message = flip_bit(message);
    }
    return inner_->post_send(to, tag, message).ticket;
  }
  Bytes flip_bit(Bytes message) {
    damaged_.assign(message.begin(), message.end());
    const auto random = base::philox(fault_.at, 0, 0, base::Purpose::fault);
    damaged_[random[0] % damaged_.size()] ^= static_cast<std::byte>(1u << (random[1] % 8));
    return damaged_;
  }

  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    if (due(nullptr)) inject();
    return inner_->post_recv(from, tag, into, fit).ticket;
  }
  Received do_wait(const Pending& pending, Seconds timeout) override {
    if (pending.ticket == kDropped) return {rank(), pending.bytes};
    inner_->set_timeout(timeout);
    return inner_->wait(pending);
  }
  void do_cancel() noexcept override { inner_.reset(); }
  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<Faulty>(*this, inner_->lane());
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<Faulty>(*this, inner_->clone_handle());
  }
  void do_abort(const std::string& reason) noexcept override {
    if (inner_) inner_->abort(reason);
  }

  FaultOptions fault_;
  Payload damaged_;
  std::unique_ptr<Transport> inner_;
  // The lanes of a rank share it, and each of them may outlive the others.
  std::shared_ptr<FaultState> state_;
};

}  // namespace

void check_fault(std::string_view spec, int size) { FaultOptions::parse(spec, size); }

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::string_view spec) {
  const FaultOptions options = FaultOptions::parse(spec, inner->size());
  return std::make_unique<Faulty>(std::move(inner), options);
}

}  // namespace thinwire::transport
