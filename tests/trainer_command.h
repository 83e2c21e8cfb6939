// What tests of commands that train share: they need the trainer, and a directory of their own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/child_process.h"
#include "testing/scratch_directory.h"

namespace thinwire {

constexpr Seconds kPatience{120};  // for a busy machine; every run takes a few seconds

class TrainerCommand : public testing::Test {
 protected:
  void SetUp() override {
#ifndef THINWIRE_TRAINER
    GTEST_SKIP() << "the trainer is not in this build: it needs libtorch-dev";
#endif
  }

  static std::string contents(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const test::ScratchDirectory scratch_;
  const std::filesystem::path directory_ = scratch_.path() / "run";  // not there yet
};

}  // namespace thinwire
