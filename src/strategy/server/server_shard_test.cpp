#include "strategy/server/server_shard.h"

#include <gtest/gtest.h>

#include "testing/expect.h"
#include "testing/ranks.h"

namespace thinwire::strategy {
namespace {

constexpr std::size_t kNumel = 8;

ShardRound round_of(std::uint64_t step) {
  ShardRound round;
  round.address = {message::ShardKind::push, 0, kNumel, step, message::ValueCoding::fp32};
  round.picked = 2;
  round.kept = kNumel;
  round.first_worker = 1;
  return round;
}

// Pushes the value 1 at element 0 and at the element of this rank, or bytes that are no message.
void push(Transport& wire, const ShardRound& round, bool readable) {
  Sparse entries;
  entries.push_back(0, 1);
  entries.push_back(static_cast<std::uint32_t>(wire.rank()), 1);
  Payload message;
  message::ShardCodec().encode(entries, round.of(message::ShardKind::push), {}, message);
  if (!readable) std::ranges::fill(message, std::byte{0xff});
  wire.send(0, kPushTag, message);
}

// The pushes of lower ranks were added up by then; in the next step they must not count again.
TEST(ServerShard, ForgetsAStepWithAPushThatCannotBeRead) {
  test::on_ranks(3, [](Transport& wire) {
    const auto up = wire.lane(), down = wire.lane();
    if (wire.rank() > 0) {
      push(*up, round_of(0), wire.rank() == 1);
      push(*up, round_of(1), true);
      Payload aggregate(1000);
      const std::size_t bytes =
          down->wait(down->post_recv(0, kAggregateTag, aggregate, Fit::at_most)).bytes;
      Sparse sum;
      message::ShardCodec().decode(Bytes(aggregate).first(bytes),
                                   round_of(1).of(message::ShardKind::aggregate),
                                   round_of(1).max_aggregated(3), {}, sum);
      EXPECT_EQ(sum.indices, (std::vector<std::uint32_t>{0, 1, 2}));
      EXPECT_EQ(sum.values, (std::vector<float>{2, 1, 1}));
      return;
    }
    ServerShard server(up->clone_handle(), down->clone_handle(), std::vector<float>(kNumel, 0.0f));
    const auto error =
        test::must_throw<WireError>([&] { server.serve(round_of(0), nullptr, RunOptions()); });
    EXPECT_TRUE(test::has(error.what(), "rank 0: rank 2 ("));
    EXPECT_TRUE(test::has(error.what(), "sent an unreadable message (message of a shard: "));
    EXPECT_EQ(error.fields().peer, 2);
    server.roll_back();
    server.serve(round_of(1), nullptr, RunOptions());
  });
}

}  // namespace
}  // namespace thinwire::strategy
