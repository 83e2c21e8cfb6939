#include "trainer/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "testing/expect.h"
#include "testing/scratch_directory.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

const Identity kIdentity{"lenet", "digits", "dense", 2, 100, 1, 32};

Payload bytes(std::size_t count, int value) {
  return Payload(count, static_cast<std::byte>(value));
}

class Checkpoints : public testing::Test {
 protected:
  // Saves the given steps on two ranks.
  void save(std::initializer_list<std::uint64_t> steps) {
    on_ranks(kIdentity, [&](Transport& wire, CheckpointStore& store) {
      for (const std::uint64_t step : steps) {
        store.save(wire, step, {{"own", bytes(10, wire.rank())}},
                   {{"model", bytes(20, static_cast<int>(step))}}, 3);
      }
    });
  }
  template <class Action>
  void on_ranks(const Identity& identity, Action action) {
    JoinOptions options;
    options.size = static_cast<int>(identity.workers);
    run_workers("threads", options, [&](Transport& wire) {
      CheckpointStore store(directory_, identity, wire.rank());
      action(wire, store);
    });
  }
  std::uint64_t loaded_step() {
    std::uint64_t step = 0;
    on_ranks(kIdentity, [&](Transport& wire, CheckpointStore& store) {
      const auto loaded = store.load(wire);
      EXPECT_EQ(section(loaded.own, "own"), bytes(10, wire.rank()));
      if (wire.rank() == 0) {
        step = loaded.step;
        notes_ = loaded.notes;
        EXPECT_EQ(section(loaded.model, "model"), bytes(20, static_cast<int>(step)));
      }
    });
    return step;
  }
  fs::path file(std::uint64_t step, std::string_view kind) const {
    return directory_ / fmt::format("step-{:012}-{}.ck", step, kind);
  }
  void flip_bit(const fs::path& path, std::size_t at) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int old = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(old ^ 4));
  }

  const test::ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path();
  std::vector<std::string> notes_;
};

TEST_F(Checkpoints, TheNewestIsUsedAndOldOnesAreRemoved) {
  save({10, 20, 30, 40});
  EXPECT_EQ(loaded_step(), 40u);
  EXPECT_TRUE(notes_.empty());
  EXPECT_FALSE(fs::exists(file(10, "model")));
  EXPECT_TRUE(fs::exists(file(20, "model")));
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_EQ(entry.path().extension(), ".ck");
  }
}

TEST_F(Checkpoints, EveryBitAndEveryLengthIsChecked) {
  save({10});
  const fs::path path = file(10, "model");
  const auto size = fs::file_size(path);
  for (std::size_t at = 0; at < size; ++at) {
    flip_bit(path, at);
    EXPECT_THROW(read_checkpoint(path, kIdentity, 10), WireError) << at;
    flip_bit(path, at);
  }
  EXPECT_NO_THROW(read_checkpoint(path, kIdentity, 10));
  for (std::uintmax_t length = size; length-- > 0;) {
    fs::resize_file(path, length);
    EXPECT_THROW(read_checkpoint(path, kIdentity, 10), WireError) << length;
  }
}

TEST_F(Checkpoints, ADamagedOneIsSkippedOnAllRanksWithANote) {
  save({10, 20, 30});
  flip_bit(file(30, "rank-1-of-2"), 50);
  EXPECT_EQ(loaded_step(), 20u);
  ASSERT_FALSE(notes_.empty());
  EXPECT_NE(notes_[0].find("step 30"), std::string::npos) << notes_[0];
  fs::remove(file(20, "model"));
  EXPECT_EQ(loaded_step(), 10u);
}

// Otherwise the first checkpoint of the new run would be the oldest one, and the first to be
// removed.
TEST_F(Checkpoints, AnEarlierRunIsSetAsideAndNotLost) {
  save({100, 200});
  on_ranks(kIdentity, [](Transport&, CheckpointStore& store) {
    EXPECT_TRUE(store.set_aside_earlier());
    EXPECT_FALSE(store.set_aside_earlier());
    EXPECT_THROW(store.check_resumable(), ConfigError);
  });
  save({1, 2, 3, 4});
  EXPECT_EQ(loaded_step(), 4u);
  EXPECT_TRUE(fs::exists(directory_ / "earlier-rank-0" / file(200, "model").filename()));
  EXPECT_TRUE(fs::exists(directory_ / "earlier-rank-1" / file(200, "rank-1-of-2").filename()));
}

TEST_F(Checkpoints, CheckResumableNeedsNoOtherRank) {
  save({10, 20});
  EXPECT_NO_THROW(CheckpointStore(directory_, kIdentity, 1).check_resumable());
  Identity other = kIdentity;
  other.model = "mlp";
  EXPECT_THROW(CheckpointStore(directory_, other, 1).check_resumable(), ConfigError);
  EXPECT_THROW(CheckpointStore(directory_, kIdentity, 2).check_resumable(), ConfigError);
  flip_bit(file(20, "rank-1-of-2"), 50);  // an older one is enough
  EXPECT_NO_THROW(CheckpointStore(directory_, kIdentity, 1).check_resumable());
  flip_bit(file(10, "rank-1-of-2"), 50);
  EXPECT_THROW(CheckpointStore(directory_, kIdentity, 1).check_resumable(), ConfigError);
}

// The run was killed after all ranks had written their own file of the first step, but before the
// file of the model.
TEST_F(Checkpoints, WithoutItsModelAStepDoesNotCount) {
  save({10, 20});
  fs::remove(file(20, "model"));
  EXPECT_NO_THROW(CheckpointStore(directory_, kIdentity, 0).check_resumable());
  fs::remove(file(10, "model"));
  EXPECT_NO_THROW(CheckpointStore(directory_, kIdentity, 1).check_resumable());
  const std::string refusal = test::must_throw<ConfigError>([&] {
                                CheckpointStore(directory_, kIdentity, 0).check_resumable();
                              }).what();
  EXPECT_NE(refusal.find("there is no intact checkpoint of rank 0"), std::string::npos) << refusal;
}

// The run was killed twice while step 20 was written: first after rank 0 had written its file, then
// after rank 1 had. The files of step 20 come from two runs.
TEST_F(Checkpoints, FilesOfTwoRunsDoNotMakeACheckpoint) {
  save({10, 20});
  fs::remove(file(20, "rank-1-of-2"));
  EXPECT_EQ(loaded_step(), 10u);
  EXPECT_TRUE(fs::exists(directory_ / "earlier-rank-0" / file(20, "model").filename()));
  write_checkpoint(file(20, "rank-1-of-2"), kIdentity, 20, {{"own", bytes(10, 1)}});
  EXPECT_EQ(loaded_step(), 10u);
}

// A step that only one rank has must not count among the checkpoints that are kept.
TEST_F(Checkpoints, AResumedRunKeepsWhatItWrites) {
  save({10, 40});
  fs::remove(file(40, "rank-1-of-2"));
  on_ranks(kIdentity, [&](Transport& wire, CheckpointStore& store) {
    EXPECT_EQ(store.load(wire).step, 10u);
    store.save(wire, 15, {{"own", bytes(10, wire.rank())}}, {{"model", bytes(20, 15)}}, 1);
  });
  EXPECT_EQ(loaded_step(), 15u);
}

TEST_F(Checkpoints, AnotherRunIsRefused) {
  save({10});
  const auto refused = [&](auto change) {
    Identity other = kIdentity;
    change(other);
    EXPECT_THROW(on_ranks(other, [](Transport& wire, CheckpointStore& store) { store.load(wire); }),
                 ConfigError);
  };
  refused([](Identity& i) { i.model = "mlp"; });
  refused([](Identity& i) { i.strategy = "gtopk"; });
  refused([](Identity& i) { i.numel = 101; });
  refused([](Identity& i) { i.seed = 2; });
  refused([](Identity& i) { i.batch = 16; });
  refused([](Identity& i) { i.workers = 3; });
}

// The file is sparse and longer than any memory, so memory for it must not even be requested.
TEST_F(Checkpoints, OneThatDoesNotFitIntoMemoryIsSkipped) {
  save({10, 20});
  fs::resize_file(file(20, "rank-1-of-2"), std::uintmax_t{1} << 40);
  EXPECT_NO_THROW(CheckpointStore(directory_, kIdentity, 1).check_resumable());
  EXPECT_EQ(loaded_step(), 10u);
}

TEST_F(Checkpoints, HavingNoneIsAnError) {
  EXPECT_THROW(loaded_step(), ConfigError);
  save({10});
  fs::resize_file(file(10, "model"), 3);
  EXPECT_THROW(loaded_step(), ConfigError);
}

TEST_F(Checkpoints, FilesOfAKilledProcessAreRemoved) {
  save({10});
  for (const char* name : {"rank-0-of-2", "rank-1-of-2", "model"}) {
    std::ofstream(file(20, name).string() + std::string(kUnfinished)) << "half";
  }
  EXPECT_EQ(loaded_step(), 10u);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_EQ(entry.path().extension(), ".ck");
  }
}

// The run was killed while the first checkpoint was written. The files of other ranks must not be
// taken for those of another run.
TEST_F(Checkpoints, ARankWithoutAnyGetsAnError) {
  save({10});
  fs::remove(file(10, "rank-1-of-2"));
  try {
    CheckpointStore(directory_, kIdentity, 1).check_resumable();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no checkpoint of rank 1"), std::string::npos)
        << error.what();
  }
}

// Rank 1 cannot write its file, because there is a directory of that name.
TEST_F(Checkpoints, AStepThatOneRankCannotWriteIsKeptByNone) {
  save({10});
  fs::create_directories(file(20, "rank-1-of-2") / "in the way");
  const auto save_in_vain = [&](Transport& wire, CheckpointStore& store) {
    try {
      store.save(wire, 20, {}, {}, 3);
      ADD_FAILURE() << "rank " << wire.rank() << " saved";
    } catch (const Error& error) {
      // Neither rank reports the other as lost, whichever is faster.
      EXPECT_EQ(error.fields().rank, wire.rank()) << error.what();
      EXPECT_EQ(error.fields().peer, 1) << error.what();
      EXPECT_EQ(error.fields().host, "this process");
      EXPECT_EQ(error.fields().operation, "save");
      EXPECT_NE(std::string(error.what()).find("cannot write its checkpoint of step 20"),
                std::string::npos)
          << error.what();
      EXPECT_EQ(dynamic_cast<const TransportError*>(&error) == nullptr, wire.rank() == 1);
      throw;
    }
  };
  for (int i = 0; i < 50; ++i) EXPECT_THROW(on_ranks(kIdentity, save_in_vain), Error);
  EXPECT_FALSE(fs::exists(file(20, "rank-0-of-2")));
  EXPECT_FALSE(fs::exists(file(20, "model")));
  EXPECT_EQ(loaded_step(), 10u);
}

TEST_F(Checkpoints, ARankThatCannotWriteFailsAll) {
  fs::remove_all(directory_);
  std::ofstream(directory_) << "a file where a directory should be";
  int failed = 0;
  std::mutex mutex;
  EXPECT_THROW(on_ranks(kIdentity,
                        [&](Transport& wire, CheckpointStore& store) {
                          try {
                            store.save(wire, 10, {}, {}, 3);
                          } catch (const Error&) {
                            const std::lock_guard lock(mutex);
                            ++failed;
                            throw;
                          }
                        }),
               Error);
  EXPECT_EQ(failed, 2);
}

}  // namespace
}  // namespace thinwire::trainer
