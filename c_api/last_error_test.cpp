#include "c_api/last_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "c_api/usage_error.h"
#include "thinwire/error.h"

namespace thinwire::c_api {
namespace {

template <class Thrown>
tw_status status_of(const Thrown& thrown) {
  return guarded([&]() -> tw_status { throw thrown; });
}

TEST(CApiStatus, OnlyMistakesOfTheCallerAreUsage) {
  EXPECT_EQ(status_of(UsageError("session: begin is called twice")), TW_USAGE);
  EXPECT_STREQ(last_error_text(), "session: begin is called twice");
  EXPECT_EQ(nlohmann::json::parse(last_error_fields())["kind"], "usage");
  EXPECT_EQ(status_of(std::length_error("vector::reserve")), TW_INTERNAL);
  EXPECT_STREQ(last_error_text(), "vector::reserve");
  EXPECT_EQ(nlohmann::json::parse(last_error_fields())["kind"], "internal");
  EXPECT_EQ(status_of(std::out_of_range("map::at")), TW_INTERNAL);
  EXPECT_EQ(status_of(std::logic_error("allgather: piece too long")), TW_INTERNAL);
  EXPECT_EQ(status_of(std::bad_alloc()), TW_INTERNAL);
  EXPECT_EQ(status_of(3), TW_INTERNAL);
}

TEST(CApiStatus, ErrorsOfTheLibraryKeepTheirKind) {
  EXPECT_EQ(status_of(Error("session: the run diverged")), TW_FAILURE);
  EXPECT_EQ(status_of(ConfigError("group: size is 0")), TW_CONFIG);
  EXPECT_EQ(status_of(WireError("state: too short")), TW_WIRE);
  EXPECT_EQ(status_of(TransportError(ErrorKind::lost, 2, "lost rank 2")), TW_LOST);
  EXPECT_EQ(nlohmann::json::parse(last_error_fields())["peer"], 2);
}

}  // namespace
}  // namespace thinwire::c_api
