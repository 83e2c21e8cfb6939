// A transport that misbehaves once, for tests. The spec says how, on which rank and at which of its
// operations (posted sends and receives, counted from 0 over all lanes):
//   kill:rank=1,at=20              the process ends by SIGKILL
//   fail:rank=1,at=20              the operation throws
//   drop:rank=1,at=20              a message is never sent, though it seems to be
//   stall:rank=1,at=20,seconds=5   the operation starts late
//   corrupt:rank=1,at=20           one bit of a message is wrong
#include <fmt/format.h>

#include <csignal>

#include "thinwire/engines.h"
#include "thinwire/random.h"
#include "thinwire/spec.h"

namespace thinwire {
namespace {

enum class Action { kill, fail, drop, stall, corrupt };

struct FaultPlan {
  Action action;
  int rank;
  std::uint64_t at;
  Seconds stall;

  static FaultPlan parse(std::string_view text) {
    static const std::vector<std::string> kActions = {"kill", "fail", "drop", "stall", "corrupt"};
    Spec spec = Spec::parse(text);
    const auto found = std::find(kActions.begin(), kActions.end(), spec.name());
    if (found == kActions.end()) throw ConfigError(unknown_word("fault", spec.name(), kActions));
    FaultPlan plan{static_cast<Action>(found - kActions.begin()),
                   static_cast<int>(spec.integer("rank", 0, 0, 1 << 20)),
                   static_cast<std::uint64_t>(spec.integer("at", 0, 0, INT64_MAX)),
                   Seconds(spec.number("seconds", 1, 0, 1e6))};
    spec.reject_unused();
    return plan;
  }
};

class Faulty final : public Transport {
 public:
  Faulty(std::unique_ptr<Transport> inner, const FaultPlan& plan)
      : Transport(inner->rank(), inner->hosts(), inner->runtime()),
        plan_(plan),
        inner_(std::move(inner)),
        done_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
    set_timeout(inner_->timeout());
  }
  Faulty(const Faulty& first, std::unique_ptr<Transport> inner)
      : Transport(first, first.runtime()),
        plan_(first.plan_),
        inner_(std::move(inner)),
        done_(first.done_) {}

 private:
  static constexpr std::uint32_t kDropped = UINT32_MAX;

  // True if the fault is due with this operation; kill, fail and stall happen here.
  bool due() {
    if (rank() != plan_.rank || (*done_)++ != plan_.at) return false;
    if (plan_.action == Action::kill) std::raise(SIGKILL);
    if (plan_.action == Action::stall) sleep(plan_.stall);
    if (plan_.action == Action::fail) {
      throw Error(fmt::format("rank {} fails at operation {} as planned", rank(), plan_.at));
    }
    return true;
  }

  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    const bool now = due();
    if (now && plan_.action == Action::drop) return kDropped;
    if (now && plan_.action == Action::corrupt && !message.empty()) {
      damaged_.assign(message.begin(), message.end());
      const auto random = philox(plan_.at, 0, 0, Purpose::fault);
      damaged_[random[0] % damaged_.size()] ^= static_cast<std::byte>(1u << (random[1] % 8));
      message = damaged_;
    }
    return inner_->post_send(to, tag, message).ticket;
  }
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    due();
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

  FaultPlan plan_;
  Payload damaged_;
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<std::atomic<std::uint64_t>> done_;  // shared by the lanes of this rank
};

}  // namespace

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::string_view spec) {
  return std::make_unique<Faulty>(std::move(inner), FaultPlan::parse(spec));
}

}  // namespace thinwire
