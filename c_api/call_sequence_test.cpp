// Any sequence of calls with any arguments returns a status, on one rank and on two that exchange.
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>

#include "c_api/test_ranks.h"

namespace thinwire::c_api::test {
namespace {

constexpr double kTimeout = 0.1;  // of an exchange for which the other rank does not come
constexpr int kFunctions = 27;    // that Caller::make() chooses from
constexpr auto kPatience = std::chrono::seconds(120);

// A call as numbers, from which a Caller makes the arguments. Both ranks get the same numbers, so
// that many of their calls fit together.
struct Call {
  unsigned function = 0, a = 0, b = 0, c = 0;
  int only_rank = -1;  // -1: both ranks
};
void showValue(const Call& call, std::ostream& out) {
  out << '{' << call.function << ", " << call.a << ", " << call.b << ", " << call.c << ", "
      << call.only_rank << '}';
}

rc::Gen<std::vector<Call>> any_calls() {
  const auto number = rc::gen::inRange(0u, 1000u);
  const auto rank = rc::gen::weightedElement<int>({{20, -1}, {1, 0}, {1, 1}});
  const auto call =
      rc::gen::construct<Call>(rc::gen::inRange(0u, 4u * kFunctions), number, number, number, rank);
  return rc::gen::resize(
      rc::kNominalSize, rc::gen::mapcat(rc::gen::inRange(1, 60), [=](int length) {
        return rc::gen::container<std::vector<Call>>(static_cast<std::size_t>(length), call);
      }));
}

// One rank. It uses the memory of its models until it is destroyed, which closes its groups.
class Caller {
 public:
  Caller(int rank, int size, std::uint16_t port, int listener) : rank_(rank), port_(port) {
    const json options = {{"rank", rank},
                          {"size", size},
                          {"master_port", port},
                          {"master_socket", rank == 0 ? listener : -1},
                          {"timeout", kTimeout}};
    tw_group group = 0;
    join_ = tw_group_join(options.dump().c_str(), &group);
    if (join_ != TW_OK) return;
    groups_ = {group, 0, 1'000'000};
    join_ = tw_group_wait(group, kForever);
  }
  ~Caller() {
    for (const tw_group group : groups_) tw_group_close(group);
    if (listener_ >= 0) close(listener_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Returns the status of the join, and how many exchanges were complete.
  tw_status joined() const { return join_; }
  int exchanges() const { return exchanges_; }

  // Three of four calls are those that come next in a correct program.
  tw_status make(const Call& call) {
    if (call.function >= kFunctions) return proceed(call);
    const tw_session session = sessions_[call.a % 8 == 0 ? call.b % sessions_.size() : current_];
    tw_group group = groups_[call.a % 8 == 0 ? call.b % groups_.size() : 0];
    float* const params = call.b % 5 == 0 ? nullptr : model_.params.data();
    float* const grads = call.c % 9 == 0 ? nullptr : model_.grads.data();
    const std::size_t numel = std::array{kNumel, kNumel, kNumel, kNumel / 2}[call.c % 4];
    std::size_t length = 0;
    std::size_t* const needed = call.c % 13 == 0 ? nullptr : &length;
    char* const out = call.b % 11 == 0 ? nullptr : room_.data();
    const std::size_t capacity = call.b % 3 == 0 ? call.c : room_.size();
    switch (call.function) {
      case 0:
        return tw_session_begin(session, params, numel, call.b % 3);
      case 1:
        return tw_session_submit(session, call.b % 3, params, grads, numel);
      case 2:
        return tw_session_wait(session, seconds(call), nullptr);
      case 3:
        return tw_session_finish_step(session, params, numel, call.a, 0.1);
      case 4:
        return tw_session_end(session, params, numel);
      case 5:
        return tw_session_quiesce(session, params, numel);
      case 6:
        return tw_session_save(session, out, capacity, needed);
      case 7:
        return tw_session_load(session, out, capacity);
      case 8:
        return tw_session_sum_metrics(session);
      case 9:
        return tw_session_stats(session, out, capacity, needed);
      case 10:
        return tw_session_info(session, out, capacity, needed);
      case 11:
        return call.c % 3 == 0 ? tw_session_close(session) : TW_OK;
      case 12:
        return open(group, call);
      case 13:
        return join(call);
      case 14:
        return tw_group_wait(group, 0.02 * (call.c % 3));
      case 15:
        return call.c % 3 == 0 ? tw_group_leave(group) : TW_OK;
      case 16:
        return call.c % 3 == 0 ? tw_group_abort(group, call.b % 5 == 0 ? nullptr : "no reason")
                               : TW_OK;
      case 17:
        return call.c % 3 == 0 ? tw_group_close(group) : TW_OK;
      case 18:
        return tw_group_log(group, call.c % 4 == 0 ? nullptr : &level_, out, capacity, needed);
      case 19:
        return listen(call);
      case 20:
        return tw_list(out, capacity, needed);
      case 21:
        return tw_strategy_info(text(R"({"strategy": "topk", "size": 4, "momentum": 0.5})", call),
                                out, capacity, needed);
      case 22:
        return tw_after_fork_in_child();
      case 23:
        return *tw_version() != '\0' && tw_abi_version() > 0 ? TW_OK : TW_INTERNAL;
      default:  // every error has an object of fields
        return json::parse(tw_error_fields()).is_object() && tw_error_text() != nullptr
                   ? TW_OK
                   : TW_INTERNAL;
    }
  }

 private:
  // Makes the next call of a correct program.
  tw_status proceed(const Call& call) {
    const tw_session session = sessions_[current_];
    float* const params = model_.params.data();
    tw_status status = TW_OK;
    if (stage_ == 0) return open(groups_[0], {call.function, call.a, call.b});
    if (stage_ == 1) {
      status = tw_session_begin(session, params, kNumel, 0);
    } else if (stage_ % 4 == 3) {
      status = tw_session_submit(session, 0, params, model_.grads.data(), kNumel);
    } else if (stage_ % 4 == 1) {
      status = tw_session_finish_step(session, params, kNumel, 1, 0.1);
    } else {
      status = tw_session_wait(session, kForever, nullptr);
      if (status == TW_OK && stage_ % 4 == 0) ++exchanges_;
    }
    stage_ = status == TW_OK ? stage_ + 1 : 0;
    if (status != TW_OK) tw_session_close(session);
    return status;
  }

  // Returns the text, nothing, or the text with a mistake.
  const char* text(std::string valid, const Call& call) {
    if (call.c % 10 == 1) return nullptr;
    if (call.c % 10 == 2) return "{";
    if (call.c % 10 == 3) valid.resize(call.b % valid.size());
    if (call.c % 10 == 4) valid[call.b % valid.size()] = "{}[]\":,0x\xff"[call.a % 10];
    text_ = std::move(valid);
    return text_.c_str();
  }

  tw_status open(tw_group group, const Call& call) {
    constexpr std::array kStrategies = {"dense",    "topk",  "gtopk",  "qsgd",
                                        "localsgd", "lasgd", "gossip", "powersgd"};
    const std::string options =
        session_options(kStrategies[call.b % kStrategies.size()], call.a % 4 == 0 ? 2 : 1);
    tw_session opened = 0;
    const tw_status status = tw_session_open(group, text(options, call), &opened);
    if (status != TW_OK) return status;
    sessions_.push_back(opened);
    if (stage_ > 0) return status;  // it is left to random calls
    current_ = sessions_.size() - 1;
    stage_ = 1;
    return status;
  }

  // Joins groups that soon fail, or of one rank.
  tw_status join(const Call& call) {
    if (groups_.size() > 5) return TW_OK;
    const int size = call.a % 2 == 0 ? 1 : 2;
    // A mistake in the number of the socket could give away one that is in use.
    const bool passes = call.b % 3 == 0 && call.c % 10 != 4;
    const json options = {
        {"rank", call.b % 2 == 0 ? rank_ : 0},      {"size", size},         {"master_port", port_},
        {"master_socket", passes ? listener_ : -1}, {"join_timeout", 0.05}, {"timeout", kTimeout}};
    tw_group group = 0;
    const tw_status status =
        tw_group_join(text(options.dump(), call), call.a % 7 == 0 ? nullptr : &group);
    if (status == TW_OK) groups_.push_back(group);
    if (status == TW_OK && passes) listener_ = -1;
    return status;
  }

  // The socket is passed to a later join, or closed.
  tw_status listen(const Call& call) {
    if (listener_ >= 0) close(std::exchange(listener_, -1));
    std::uint16_t port = 0;
    const char* const host = call.b % 4 == 0 ? "256.0.0.1" : "127.0.0.1";
    return tw_listen(call.c % 5 == 0 ? nullptr : host, &port,
                     call.a % 5 == 0 ? nullptr : &listener_);
  }

  static double seconds(const Call& call) { return std::array{0.0, 0.01, kForever}[call.c % 3]; }

  const int rank_;
  const std::uint16_t port_;
  tw_status join_ = TW_OK;
  std::vector<tw_group> groups_ = {0};  // the first is the one of both ranks
  std::vector<tw_session> sessions_ = {0, 7'000'000};
  std::size_t current_ = 0;  // the session that proceed() uses
  int stage_ = 0;            // of that session: 0 none, 1 opened, 2 begins, then 4 for each step
  int exchanges_ = 0;
  int listener_ = -1;
  int level_ = 0;
  Model model_;
  std::vector<char> room_ = std::vector<char>(1 << 16);
  std::string text_;
};

// Makes the calls of one rank. Returns what went wrong, or nothing.
std::string make_calls(Caller& caller, int rank, const std::vector<Call>& calls) {
  if (caller.joined() != TW_OK) return "cannot join";
  for (const Call& call : calls) {
    if (call.only_rank >= 0 && call.only_rank != rank) continue;
    const tw_status status = caller.make(call);
    if (status < TW_OK || status >= TW_INTERNAL) return "invalid status: " + std::to_string(status);
  }
  return "";
}

// Returns how many exchanges were complete.
int run(int size, const std::vector<Call>& calls) {
  std::uint16_t port = 0;
  int listener = -1;
  RC_ASSERT(tw_listen("127.0.0.1", &port, &listener) == TW_OK);
  std::vector<std::future<std::string>> ranks;
  std::atomic<int> exchanges = 0;
  std::latch all_joined(size);
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [=, &calls, &exchanges, &all_joined] {
      Caller caller(rank, size, port, listener);
      all_joined.arrive_and_wait();
      std::string problem = make_calls(caller, rank, calls);
      exchanges += caller.exchanges();
      return problem;
    }));
  }
  for (auto& rank : ranks) {
    if (rank.wait_for(kPatience) == std::future_status::ready) continue;
    std::fprintf(stderr, "these calls do not end: %s\n", rc::toString(calls).c_str());
    std::_Exit(1);  // its thread cannot be ended
  }
  for (auto& rank : ranks) RC_ASSERT(rank.get() == "");
  return exchanges;
}

// Runs at least 100 sequences, however few cases RC_PARAMS asks for.
template <class Run>
int repeat_in_case(Run run_sequence) {
  const int cases = rc::detail::configuration().testParams.maxSuccess;
  int exchanges = 0;
  for (int i = 0; i < std::max(1, 100 / cases); ++i) exchanges += run_sequence();
  return exchanges;
}

RC_GTEST_PROP(CApiCalls, OfOneRankReturnAStatus, ()) {
  repeat_in_case([] { return run(1, *any_calls()); });
}

TEST(CApiCalls, OfTwoRanksReturnAStatus) {
  int exchanges = 0;
  rc::detail::checkGTest([&] { exchanges += repeat_in_case([] { return run(2, *any_calls()); }); });
  EXPECT_GT(exchanges, 50) << "too few sequences get as far as an exchange";
}

}  // namespace
}  // namespace thinwire::c_api::test
