// Tests that Gloo's connections are used only after both ends have proven that they know the job's
// token.
#include "transport/gloo/gloo_group.h"

#include <gloo/transport/tcp/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>

#include "testing/expect.h"
#include "transport/gloo/gloo_store.h"

namespace thinwire::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kProofSlot = ~std::uint64_t{0};

// Rank 0 is a correct rank. Rank 1 has joined the rendezvous, but another program holds its end of
// Gloo's connection.
class FalsePeer : public testing::Test {
 protected:
  std::future<TransportError> start(Seconds join_timeout) {
    rendezvous::Socket listener = rendezvous::listen_at("127.0.0.1", 0);
    options_.size = 2;
    options_.token = "a token of this test, long enough";
    options_.join_timeout = join_timeout;
    options_.master_port = rendezvous::port_of(listener);
    options_.master_socket = listener.release();
    auto error = std::async(std::launch::async, [options = options_] {
      return test::must_throw<TransportError>([&] { const GlooGroup group(options); });
    });
    options_.rank = 1;
    options_.master_socket = -1;
    membership_ = std::make_unique<rendezvous::Membership>(options_);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    context_ = std::make_shared<gloo::rendezvous::Context>(1, 2);
    RendezvousStore store(*membership_, rendezvous::deadline_in(Seconds(5)));
    context_->connectFullMesh(store, device);
    return error;
  }

  JoinOptions options_;
  std::unique_ptr<rendezvous::Membership> membership_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

// The number of a lane is a part of Gloo's slots; a larger one would run into the bits of others.
TEST(GlooGroup, GivesNoMoreLanesThanASlotHasRoomFor) {
  GlooGroup group({});
  for (int lane = 1; lane < GlooGroup::kMostLanes; ++lane) ASSERT_EQ(group.next_lane(), lane);
  const auto error = test::must_throw<Error>([&] { group.next_lane(); });
  EXPECT_THAT(error.what(), HasSubstr("all 32768 lanes"));
  EXPECT_EQ(error.fields().operation, "lane");
  EXPECT_THROW(group.next_lane(), Error);
}

TEST_F(FalsePeer, WithAWrongProofIsRefusedByName) {
  auto error = start(Seconds(10));
  std::array<std::byte, 32> guess{}, answer{};
  const auto out = context_->createUnboundBuffer(guess.data(), guess.size());
  const auto in = context_->createUnboundBuffer(answer.data(), answer.size());
  for (int message = 0; message < 2; ++message) {  // a nonce, and an invalid proof
    in->recv(0, kProofSlot);
    out->send(0, kProofSlot);
    out->waitSend(std::chrono::seconds(10));
    in->waitRecv(std::chrono::seconds(10));
  }
  const TransportError refusal = error.get();
  EXPECT_EQ(refusal.kind(), TransportError::Kind::join);
  EXPECT_EQ(refusal.fields().rank, 0);
  EXPECT_EQ(refusal.peer(), 1);
  EXPECT_EQ(refusal.fields().operation, "join");
  EXPECT_THAT(refusal.what(), HasSubstr("not know the job token"));
  const auto loss = membership_->wait_for_loss(rendezvous::deadline_in(Seconds(5)));
  ASSERT_TRUE(loss) << "all other ranks must get the reason";
  EXPECT_EQ(loss->rank, 0);
}

TEST_F(FalsePeer, ThatSendsNothingIsRefusedByName) {
  const TransportError refusal = start(Seconds(1)).get();
  EXPECT_EQ(refusal.peer(), 1);
  EXPECT_THAT(refusal.what(), AllOf(HasSubstr("rank 1 ("), HasSubstr("does not prove"),
                                    HasSubstr("it sends nothing")));
}

}  // namespace
}  // namespace thinwire::transport
