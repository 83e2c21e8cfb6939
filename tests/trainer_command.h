// What tests of commands that train share: they need the trainer, and a directory of their own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/child_process.h"

namespace thinwire {

constexpr Seconds kPatience{120};  // for a busy machine; every run takes a few seconds

class TrainerCommand : public testing::Test {
 protected:
  void SetUp() override {
#ifndef THINWIRE_TRAINER
    GTEST_SKIP() << "the trainer is not in this build: it needs libtorch-dev";
#endif
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static std::string contents(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("thinwire_trainer_{}", getpid());
};

}  // namespace thinwire
