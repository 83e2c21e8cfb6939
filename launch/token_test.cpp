#include "launch/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::launch {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

Environment nothing() {
  return [](std::string_view) { return std::nullopt; };
}
Environment with_token(const std::string& token) {
  return [=](std::string_view name) -> std::optional<std::string> {
    if (name != kTokenVariable) return std::nullopt;
    return token;
  };
}

class Token : public testing::Test {
 protected:
  Token() { fs::create_directories(directory_); }
  ~Token() override { fs::remove_all(directory_); }

  std::string file(const std::string& contents, fs::perms mode = fs::perms::owner_read) {
    const fs::path path = directory_ / "a token \u00fc";
    fs::remove(path);
    std::ofstream(path) << contents;
    fs::permissions(path, mode);
    return path;
  }
  static std::string refusal(const std::string& file, const Environment& env = nothing()) {
    return test::must_throw<ConfigError>([&] { find_token(file, env); }).what();
  }

  fs::path directory_ = fs::temp_directory_path() / ("token-test-" + fresh_token());
};

const std::string kToken = "0123456789abcdef0123456789abcdef";

TEST_F(Token, FromTheFileElseFromTheVariable) {
  EXPECT_EQ(find_token("", nothing()), "");
  EXPECT_EQ(find_token("", with_token(kToken)), kToken);
  EXPECT_EQ(find_token("", with_token(" " + kToken + "\n")), kToken);
  EXPECT_EQ(find_token(file(kToken + "\n"), with_token("the variable is not asked")), kToken);
}

TEST_F(Token, AFileThatOthersCanReadIsRefused) {
  for (const fs::perms mode : {fs::perms::group_read, fs::perms::others_read}) {
    EXPECT_THAT(refusal(file(kToken, fs::perms::owner_all | mode)), HasSubstr("chmod 600"));
  }
}

TEST_F(Token, WhatIsNoTokenIsRefused) {
  EXPECT_THAT(refusal(file("")), AllOf(HasSubstr("0 characters"), HasSubstr("openssl rand")));
  EXPECT_THAT(refusal(file("password")), HasSubstr("8 characters is easily guessed"));
  EXPECT_THAT(refusal("", with_token("password")), HasSubstr("THINWIRE_TOKEN: a token of 8"));
  EXPECT_THAT(refusal(file("aaaaaaaaaaaaaaaa")),
              AllOf(HasSubstr("of 1 different characters"), HasSubstr("openssl rand")));
  EXPECT_THAT(refusal("", with_token("01234560123456012345601234560123")),
              HasSubstr("THINWIRE_TOKEN: a token of 7 different"));
  EXPECT_THAT(refusal(file(std::string(5000, 'x'))), HasSubstr("longer than 4096 bytes"));
  EXPECT_THAT(refusal(directory_ / "absent"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(directory_), HasSubstr("not a file"));
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(pipe), HasSubstr("not a file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("not a file"));
}

TEST_F(Token, AFreshOneIsNeverTheSame) {
  EXPECT_EQ(fresh_token().size(), 64u);
  EXPECT_NE(fresh_token(), fresh_token());
  EXPECT_EQ(find_token("", with_token(fresh_token())).size(), 64u);
}

}  // namespace
}  // namespace thinwire::launch
