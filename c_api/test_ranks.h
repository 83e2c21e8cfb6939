// Ranks of a group as threads of a test of the C API.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/thinwire_c.h"

namespace thinwire::c_api::test {

using nlohmann::json;

inline constexpr std::size_t kNumel = 60;
inline constexpr double kForever = -1;

inline std::string session_options(const std::string& strategy, int buckets = 1,
                                   double momentum = 0) {
  return json{{"strategy", strategy},
              {"steps", 10},
              {"buckets", buckets},
              {"momentum", momentum},
              {"tensors", {{{"name", "a"}, {"shape", {5, 8}}}, {{"name", "b"}, {"shape", {20}}}}}}
      .dump();
}

// Calls a function that writes text, with enough room.
template <class Call>
std::string text_of(Call call) {
  std::vector<char> out(1 << 16);
  std::size_t needed = 0;
  EXPECT_EQ(call(out.data(), out.size(), &needed), TW_OK) << tw_error_text();
  return out.data();
}

inline tw_status wait_for(tw_session session, int* skipped = nullptr) {
  return tw_session_wait(session, kForever, skipped);
}

// One rank of a group of this process; the ranks are threads.
struct Rank {
  Rank(int rank, int size, std::uint16_t port, int descriptor, double timeout = 60) {
    const json options = {{"rank", rank},
                          {"size", size},
                          {"master_port", port},
                          {"master_socket", rank == 0 ? descriptor : -1},
                          {"timeout", timeout}};
    EXPECT_EQ(tw_group_join(options.dump().c_str(), &group), TW_OK) << tw_error_text();
    EXPECT_EQ(tw_group_wait(group, kForever), TW_OK) << tw_error_text();
  }
  void leave() const {
    EXPECT_EQ(tw_group_leave(group), TW_OK) << tw_error_text();
    EXPECT_EQ(tw_group_wait(group, kForever), TW_OK) << tw_error_text();
    EXPECT_EQ(tw_group_close(group), TW_OK);
  }
  tw_group group = 0;
};

template <class Work>
void on_ranks(int size, Work work, double timeout = 60) {
  std::uint16_t port = 0;
  int descriptor = -1;
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK) << tw_error_text();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([=] { work(Rank(rank, size, port, descriptor, timeout), rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Model {
  std::vector<float> params = std::vector<float>(kNumel, 0);
  std::vector<float> grads = std::vector<float>(kNumel, 0);
};

// One rank alone, for mistakes.
class CApiMistakes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tw_group_join(R"({"rank": 0, "size": 1})", &group_), TW_OK);
    ASSERT_EQ(tw_group_wait(group_, kForever), TW_OK) << tw_error_text();
    ASSERT_EQ(tw_session_open(group_, session_options("dense").c_str(), &session_), TW_OK);
  }
  void TearDown() override { tw_group_close(group_); }

  tw_group group_ = 0;
  tw_session session_ = 0;
  Model model_;
};

}  // namespace thinwire::c_api::test
