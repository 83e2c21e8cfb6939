// Tests which clients may join: the job's token, clients without it, and the networks on which a
// token is required.
#include <gmock/gmock.h>

#include "rendezvous/interface.h"
#include "testing/expect.h"
#include "testing/rendezvous_group.h"

namespace thinwire::rendezvous {
namespace {

using test::kToken;
using test::Rendezvous;

using testing::HasSubstr;

TEST_F(Rendezvous, AllRanksWithTheSameTokenJoin) {
  std::vector<Joining> joining;
  for (int rank = 0; rank < 3; ++rank) {
    auto each = options(rank, 3);
    each.token = kToken;
    joining.push_back(join(each));
  }
  for (auto& member : joining) EXPECT_TRUE(member.get());
}

TEST_F(Rendezvous, AWrongTokenIsRefusedOnBothSidesAndDoesNotAffectOthers) {
  for (const std::string& wrong : {std::string("another token, long enough"), std::string()}) {
    auto zero = options(0, 2), stranger = options(1, 2), one = options(1, 2);
    zero.token = one.token = kToken;
    stranger.token = wrong;
    auto first = join(zero);
    const TransportError error = refused(join(stranger));
    expect_facts(error, 1, 0, Remedy::share_token);
    EXPECT_THAT(error.what(), HasSubstr("does not know this rank's job token"));
    EXPECT_TRUE(join(one).get());
    EXPECT_TRUE(first.get());
    listener_ = listen_at("127.0.0.1", port_);
  }
}

TEST_F(Rendezvous, TheMasterNamesTheRankThatDoesNotKnowTheToken) {
  auto zero = options(0, 3), stranger = options(2, 3);
  zero.token = kToken;
  zero.join_timeout = test::kEnoughToJoin;
  auto first = join(zero);
  refusal(join(stranger));
  const TransportError error = refused(std::move(first));
  expect_facts(error, 0, -1, Remedy::share_token);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("refused: rank 2 ("),
                                  HasSubstr("at 127.0.0.1 does not know the job token")));
}

TEST_F(Rendezvous, ARankProvesNothingToAFalseMaster) {
  auto one = options(1, 2);
  one.token = kToken;
  auto joining = join(one);
  const Deadline soon = deadline_in(test::kPatience);
  ASSERT_TRUE(wait_readable(listener_, soon));
  const Socket victim = accept_from(listener_);
  FrameReader reader(kLongestHello);
  const auto greeting = read_frame(victim, reader, soon);
  ASSERT_TRUE(greeting);
  Payload challenge{static_cast<std::byte>(RendezvousMessage::challenge)};
  challenge.resize(1 + sizeof(Nonce) + sizeof(base::Digest));
  send_frame(victim, challenge, soon);
  const auto presentation = read_frame(victim, reader, soon);
  ASSERT_TRUE(presentation);
  EXPECT_TRUE(std::ranges::all_of(presentation->subspan(1, sizeof(base::Digest)),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_THAT(refusal(std::move(joining)), HasSubstr("does not know this rank's job token"));
}

// A proof that was accepted once is not accepted again.
TEST_F(Rendezvous, AReplayedProofIsRefused) {
  auto zero = options(0, 2);
  zero.token = kToken;
  auto first = join(zero);
  const Deadline soon = deadline_in(test::kPatience);
  const Nonce nonce = make_nonce();
  Payload recorded;
  for (const bool replay : {false, true}) {
    const Socket rank = connect_to("127.0.0.1", port_, soon);
    send_frame(rank, test::hello(kProtocolVersion, nonce), soon);
    FrameReader reader(kLongestHello);
    const auto challenge = read_frame(rank, reader, soon);
    ASSERT_TRUE(challenge);
    if (!replay) {
      Payload claims;
      base::ByteWriter writer(claims);
      writer.put(std::uint32_t{9});  // no such rank: the proof is accepted, the rank is not
      writer.put(std::uint32_t{2});
      writer.put_text("host");
      recorded = {static_cast<std::byte>(RendezvousMessage::present)};
      base::ByteWriter(recorded).put(
          Bytes(prove(kToken, Role::rank, {nonce, challenge->subspan(1, sizeof(Nonce)), claims})));
      base::ByteWriter(recorded).put(Bytes(claims));
    }
    send_frame(rank, recorded, soon);
    const auto answer = read_frame(rank, reader, soon);
    ASSERT_TRUE(answer);
    const std::string text(reinterpret_cast<const char*>(answer->data()), answer->size());
    EXPECT_THAT(text, HasSubstr(replay ? "does not know the job token" : "was started for"));
  }
  auto one = options(1, 2);
  one.token = kToken;
  EXPECT_TRUE(join(one).get());
  EXPECT_TRUE(first.get());
}

TEST_F(Rendezvous, ManySilentStrangersDoNotKeepRanksOut) {
  auto zero = options(0, 2);
  auto first = join(zero);
  const Deadline soon = deadline_in(test::kPatience);
  std::vector<Socket> strangers;
  const std::size_t most = RendezvousRules().most_strangers + 4;  // two for each rank
  while (strangers.size() < most + 20) strangers.push_back(connect_to("127.0.0.1", port_, soon));
  FrameReader reader(1000);
  EXPECT_THROW(read_frame(strangers.front(), reader, soon), WireError)
      << "the oldest connection must be closed";
  EXPECT_TRUE(join(options(1, 2)).get());
  EXPECT_TRUE(first.get());
}

TEST_F(Rendezvous, AClientWithoutAProofHasLimitedTime) {
  RendezvousRules rules{2, kToken, Seconds(20)};
  rules.handshake_timeout = Seconds(0.2);
  const RendezvousServer server(std::move(listener_), rules);
  const Deadline soon = deadline_in(test::kPatience);
  const Socket silent = connect_to("127.0.0.1", port_, soon);
  FrameReader reader(1000);
  EXPECT_THROW(read_frame(silent, reader, soon), WireError);
  const Socket halfway = connect_to("127.0.0.1", port_, soon);
  send_frame(halfway, test::hello(kProtocolVersion, {}), soon);
  EXPECT_TRUE(read_frame(halfway, reader, soon)) << "the challenge";
  EXPECT_THROW(read_frame(halfway, reader, soon), WireError);
}

TEST_F(Rendezvous, AFloodIsNotStored) {
  const Deadline soon = deadline_in(test::kPatience);
  const Socket sender = connect_to("127.0.0.1", port_, soon);
  ASSERT_TRUE(wait_readable(listener_, soon));
  const Socket receiver = accept_from(listener_);
  send_frame(sender, Payload(200'000), soon);
  FrameReader reader(kLongestHello);
  ASSERT_TRUE(wait_readable(receiver, soon));
  EXPECT_TRUE(reader.fill(receiver));
  EXPECT_THROW(reader.next(), WireError);
}

TEST_F(Rendezvous, OnlyLoopbackNeedsNoToken) {
  JoinOptions open;
  for (const char* host : {"127.0.0.1", "127.0.5.7", "::1", "localhost", "::ffff:127.0.0.1"}) {
    EXPECT_NO_THROW(require_token(open, host)) << host;
  }
  JoinOptions guarded;
  guarded.token = kToken;
  for (const char* host : {"192.0.2.1", "2001:db8::1"}) {
    EXPECT_NO_THROW(require_token(guarded, host)) << host;
    const auto refused = test::must_throw<ConfigError>([&] { require_token(open, host); });
    EXPECT_THAT(refused.what(), AllOf(HasSubstr(host), HasSubstr("the ranks need a token")));
    EXPECT_EQ(to_string(refused.fields().remedy), "share_token");
  }
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto refused = test::must_throw<ConfigError>([&] { require_token(guarded, host); });
    EXPECT_THAT(refused.what(), HasSubstr("all networks")) << host;
    EXPECT_EQ(to_string(refused.fields().remedy), "choose_master");
  }
}

// The address of the inherited socket counts, not the name of the master.
TEST_F(Rendezvous, AnInheritedSocketIsChecked) {
  auto zero = options(0, 1);
  const Socket kept(zero.master_socket);
  zero.master_socket = listen_at("0.0.0.0", 0).release();
  EXPECT_THAT(test::must_throw<ConfigError>([&] { Membership{zero}; }).what(),
              HasSubstr("all networks"));
}

TEST_F(Rendezvous, TheMasterListensOnlyOnTheNamedInterface) {
  JoinOptions options;
  options.token = kToken;
  EXPECT_NO_THROW(require_interface(options, "192.0.2.1"));
  options.interface = "ib7,lo";
  options.master_host = "node1";
  EXPECT_NO_THROW(require_interface(options, "127.0.0.1"));
  const auto error =
      test::must_throw<ConfigError>([&] { require_interface(options, "192.0.2.1"); });
  EXPECT_EQ(to_string(error.fields().remedy), "choose_master");
  EXPECT_THAT(error.what(), AllOf(HasSubstr("master 'node1': its address 192.0.2.1"),
                                  HasSubstr("'ib7,lo'"), HasSubstr("such as 127.0.0.1:29500")));
}

TEST_F(Rendezvous, AMasterThatOthersReachNeedsAToken) {
  auto one = options(1, 2);
  one.master_host = "192.0.2.1";
  EXPECT_THROW(Membership{one}, ConfigError);
}

}  // namespace
}  // namespace thinwire::rendezvous
