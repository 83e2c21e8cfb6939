// Joining: groups that come together, and every way in which they do not.
#include "transport/rendezvous.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/expect.h"
#include "thinwire/bytes.h"
#include "transport/interface.h"
#include "transport/membership.h"

namespace thinwire {
namespace {

using testing::HasSubstr;

const std::string kToken = "a token of this test, long enough";

// A group at a port of its own, whose first rank may inherit the listening socket.
class Rendezvous : public testing::Test {
 protected:
  Rendezvous() : listener_(listen_at("127.0.0.1", 0)), port_(port_of(listener_)) {}

  JoinOptions options(int rank, int size) {
    JoinOptions out;
    out.rank = rank;
    out.size = size;
    out.master_port = port_;
    out.join_timeout = Seconds(5);
    if (rank == 0) out.master_socket = listener_.release();
    return out;
  }

  using Joining = std::future<std::unique_ptr<Membership>>;
  static Joining join(const JoinOptions& options) {
    return std::async(std::launch::async, [=] { return std::make_unique<Membership>(options); });
  }
  std::vector<std::unique_ptr<Membership>> join_all(int size) {
    std::vector<Joining> joining;
    for (int rank = 0; rank < size; ++rank) joining.push_back(join(options(rank, size)));
    std::vector<std::unique_ptr<Membership>> members;
    for (auto& member : joining) members.push_back(member.get());
    return members;
  }

  // The words with which joining fails.
  static std::string refusal(Joining joining) {
    try {
      joining.get();
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::join);
      return error.what();
    }
    return "no error";
  }

  Socket listener_;
  std::uint16_t port_;
};

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_F(Rendezvous, AllRanksLearnAllHostsAndShareValues) {
  const auto members = join_all(5);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(members[static_cast<std::size_t>(rank)]->hosts().size(), 5u);
    members[static_cast<std::size_t>(rank)]->put(fmt::format("k{}", rank), bytes("value"));
  }
  for (const auto& member : members) {
    for (int rank = 0; rank < 5; ++rank) {
      const auto value = member->get(fmt::format("k{}", rank), deadline_in(Seconds(5)));
      ASSERT_TRUE(value);
      EXPECT_TRUE(std::ranges::equal(*value, bytes("value")));
    }
  }
  EXPECT_FALSE(members[1]->get("absent", deadline_in(Seconds(0.05))));
}

TEST_F(Rendezvous, FarewellWaitsForTheLast) {
  const auto members = join_all(3);
  std::vector<std::future<void>> leaving;
  for (const auto& member : members) {
    leaving.push_back(
        std::async(std::launch::async, [&] { EXPECT_FALSE(member->leave(Seconds(5))); }));
  }
  for (auto& left : leaving) left.get();
  for (const auto& member : members) EXPECT_FALSE(member->loss());
  EXPECT_TRUE(members[0]->has_left(2));
}

TEST_F(Rendezvous, AnErrorOfOneRankReachesAllInItsOwnWords) {
  const auto members = join_all(3);
  members[2]->fail("out of patience");
  for (const auto& member : members) {
    const auto loss = member->wait_for_loss(deadline_in(Seconds(5)));
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 2);
    EXPECT_EQ(loss->reason, "out of patience");
  }
}

TEST_F(Rendezvous, ARankThatVanishesIsNamed) {
  auto members = join_all(4);
  members[2].reset();
  for (const int survivor : {0, 1, 3}) {
    const auto loss =
        members[static_cast<std::size_t>(survivor)]->wait_for_loss(deadline_in(Seconds(5)));
    ASSERT_TRUE(loss) << survivor;
    EXPECT_EQ(loss->rank, 2);
  }
}

TEST_F(Rendezvous, AVanishedMasterIsNamed) {
  auto members = join_all(3);
  members[0].reset();
  const auto loss = members[2]->wait_for_loss(deadline_in(Seconds(5)));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
}

// As a stopped process: its connection stands, but it answers no question.
TEST_F(Rendezvous, ARankThatIsSilentIsFoundAndToldToAll) {
  std::promise<void> awake;
  const auto members = join_all(3);
  members[0]->on_question([] { return 1; });
  members[2]->on_question([&] { return awake.get_future().wait(), RollCall::kNobody; });
  const auto loss = members[1]->complain(RollCall::Kind::delay, 0, "no progress for 1.0 s");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  EXPECT_THAT(loss->reason, HasSubstr("no progress for 1.0 s, and it does not answer"));
  const auto heard = members[0]->wait_for_loss(deadline_in(Seconds(5)));
  awake.set_value();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->reason, loss->reason);
  EXPECT_FALSE(members[0]->leave(Seconds(5))) << "it has coped with that, and is done";
}

TEST_F(Rendezvous, ARankThatWaitsForNobodyHoldsUpTheOthers) {
  const auto members = join_all(4);
  const auto waits_for = [&](std::size_t rank, int other) {
    members[rank]->on_question([=] { return other; });
  };
  waits_for(0, 3);
  waits_for(1, 0);
  waits_for(3, 2);
  const auto loss = members[1]->complain(RollCall::Kind::delay, 0, "no progress for 1.0 s");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  for (const auto& member : members) {
    EXPECT_EQ(member->wait_for_loss(deadline_in(Seconds(5)))->rank, 2);
  }
}

TEST_F(Rendezvous, AMasterThatIsSilentIsToBlame) {
  auto joining = join(options(1, 2));
  ASSERT_TRUE(wait_readable(listener_, deadline_in(Seconds(5))));
  const Socket member = accept_from(listener_);
  const Deadline soon = deadline_in(Seconds(5));
  FrameReader reader(1000);
  const auto greeting = read_frame(member, reader, soon);
  ASSERT_TRUE(greeting);
  const Nonce nonce{};
  Payload challenge{static_cast<std::byte>(Meeting::challenge)};
  ByteWriter(challenge).put(Bytes(nonce));
  ByteWriter(challenge).put(Bytes(
      prove(options(1, 2).token, Prover::master, {greeting->last(sizeof(Nonce)), Bytes(nonce)})));
  send_frame(member, challenge, soon);
  ASSERT_TRUE(read_frame(member, reader, soon)) << "the presentation";
  Payload welcome{static_cast<std::byte>(Meeting::welcome)};
  for (const char* host : {"stopped-host", "this-host"}) ByteWriter(welcome).put_text(host);
  send_frame(member, welcome, soon);
  const auto loss = joining.get()->leave(Seconds(0.1));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_THAT(loss->reason, HasSubstr("no farewell for 0.1 s, and it does not answer"));
}

TEST_F(Rendezvous, WhoIsNotDoneYetIsNotLost) {
  const auto members = join_all(2);
  EXPECT_FALSE(members[0]->leave(Seconds(0.1)));
  EXPECT_FALSE(members[1]->loss());
}

TEST_F(Rendezvous, MissingRanksAreListed) {
  auto zero = options(0, 4), one = options(1, 4);
  zero.join_timeout = Seconds(0.3);
  auto joining = join(zero);
  EXPECT_THAT(refusal(join(one)), HasSubstr("2 of 4 workers joined in time; missing: rank 2, 3"));
  EXPECT_THAT(refusal(std::move(joining)), HasSubstr("missing: rank 2, 3"));
}

TEST_F(Rendezvous, DuplicateRankIsRefused) {
  auto zero = options(0, 3);
  zero.join_timeout = Seconds(1);
  auto first = join(zero);
  auto one = join(options(1, 3)), other_one = join(options(1, 3));
  const std::string words = refusal(std::move(one)) + refusal(std::move(other_one));
  EXPECT_THAT(words, HasSubstr("rank 1 exists twice"));
  EXPECT_THAT(refusal(std::move(first)), HasSubstr("refused: rank 1 exists twice"));
}

TEST_F(Rendezvous, WrongWorldSizeIsRefused) {
  auto zero = options(0, 2);
  zero.join_timeout = Seconds(0.5);
  auto first = join(zero);
  EXPECT_THAT(refusal(join(options(1, 3))),
              HasSubstr("was started for 3 workers, but rank 0 for 2"));
  EXPECT_THAT(refusal(std::move(first)), HasSubstr("was started for 3 workers"));
}

TEST_F(Rendezvous, ALateComerDoesNotDisturbACompleteGroup) {
  const auto members = join_all(2);
  EXPECT_THAT(refusal(join(options(1, 2))), HasSubstr("rank 1 exists twice"));
  EXPECT_FALSE(members[1]->loss());
}

TEST_F(Rendezvous, PortInUse) {
  auto zero = options(0, 2);
  const Socket kept(zero.master_socket);
  zero.master_socket = -1;
  EXPECT_THAT(refusal(join(zero)), HasSubstr("the port is in use"));
}

TEST_F(Rendezvous, MasterThatIsNotHere) {
  auto zero = options(0, 2);
  const Socket kept(zero.master_socket);
  zero.master_socket = -1;
  zero.master_host = "192.0.2.1";  // TEST-NET-1: nobody's address
  zero.token = kToken;
  EXPECT_THAT(refusal(join(zero)), HasSubstr("no address of this machine"));
}

TEST_F(Rendezvous, AbsentMaster) {
  auto one = options(1, 2);
  listener_.close();
  one.join_timeout = Seconds(0.3);
  EXPECT_THAT(refusal(join(one)), HasSubstr("no answer from the master"));
}

TEST_F(Rendezvous, MasterThatIsSomethingElse) {
  auto one = options(1, 2);
  auto joining = join(one);
  ASSERT_TRUE(wait_readable(listener_, deadline_in(Seconds(5))));
  const Socket stranger = accept_from(listener_);
  send_frame(stranger, bytes("HTTP/1.1 400 Bad Request"), deadline_in(Seconds(1)));
  EXPECT_THAT(refusal(std::move(joining)), HasSubstr("not thinwire"));
}

TEST_F(Rendezvous, StrangersAreTurnedAway) {
  auto first = join(options(0, 2));
  const Deadline soon = deadline_in(Seconds(5));
  const auto closes = [&](Bytes greeting) {
    const Socket stranger = connect_to("127.0.0.1", port_, soon);
    send_frame(stranger, greeting, soon);
    FrameReader reader(1000);
    EXPECT_THROW(read_frame(stranger, reader, soon), WireError);
  };
  closes(bytes("GET / HTTP/1.1"));
  closes(bytes(""));
  closes(Payload(kLongestHello + 1));
  closes(Payload(kLongestHello));
  EXPECT_TRUE(join(options(1, 2)).get());
  EXPECT_TRUE(first.get());
}

// The first message of a worker of that version.
Payload hello(std::uint16_t version, const Nonce& nonce) {
  Payload out;
  ByteWriter writer(out);
  writer.put(static_cast<std::uint8_t>(Meeting::hello));
  writer.put(kMeetingMagic);
  writer.put(version);
  writer.put(Bytes(nonce));
  return out;
}

TEST_F(Rendezvous, AnotherVersionIsToldSo) {
  for (const int difference : {-1, 1}) {
    auto zero = options(0, 2);
    zero.join_timeout = Seconds(0.5);
    auto first = join(zero);
    const Deadline soon = deadline_in(Seconds(5));
    const Socket other = connect_to("127.0.0.1", port_, soon);
    send_frame(other, hello(static_cast<std::uint16_t>(kMeetingVersion + difference), {}), soon);
    FrameReader reader(1000);
    const auto answer = read_frame(other, reader, soon);
    ASSERT_TRUE(answer);
    const std::string text(reinterpret_cast<const char*>(answer->data()), answer->size());
    EXPECT_THAT(text, HasSubstr("run the same thinwire everywhere"));
    EXPECT_THAT(refusal(std::move(first)),
                AllOf(HasSubstr("missing: rank 1"), HasSubstr("the worker at 127.0.0.1 version")));
    listener_ = listen_at("127.0.0.1", port_);
  }
}

// --- The job's token.

TEST_F(Rendezvous, ATokenShared) {
  std::vector<Joining> joining;
  for (int rank = 0; rank < 3; ++rank) {
    auto each = options(rank, 3);
    each.token = kToken;
    joining.push_back(join(each));
  }
  for (auto& member : joining) EXPECT_TRUE(member.get());
}

TEST_F(Rendezvous, AWrongTokenIsRefusedOnBothSidesAndHurtsNobodyElse) {
  for (const std::string& wrong : {std::string("another token, long enough"), std::string()}) {
    auto zero = options(0, 2), stranger = options(1, 2), one = options(1, 2);
    zero.token = one.token = kToken;
    stranger.token = wrong;
    auto first = join(zero);
    EXPECT_THAT(refusal(join(stranger)), HasSubstr("does not know this rank's job token"));
    EXPECT_TRUE(join(one).get());
    EXPECT_TRUE(first.get());
    listener_ = listen_at("127.0.0.1", port_);
  }
}

TEST_F(Rendezvous, TheMasterNamesWhoDoesNotKnowTheToken) {
  auto zero = options(0, 3), stranger = options(2, 3);
  zero.token = kToken;
  zero.join_timeout = Seconds(1);
  auto first = join(zero);
  refusal(join(stranger));
  EXPECT_THAT(
      refusal(std::move(first)),
      AllOf(HasSubstr("refused: rank 2 ("), HasSubstr("at 127.0.0.1 does not know the job token")));
}

TEST_F(Rendezvous, ARankProvesNothingToAFalseMaster) {
  auto one = options(1, 2);
  one.token = kToken;
  auto joining = join(one);
  const Deadline soon = deadline_in(Seconds(5));
  ASSERT_TRUE(wait_readable(listener_, soon));
  const Socket victim = accept_from(listener_);
  FrameReader reader(kLongestHello);
  const auto greeting = read_frame(victim, reader, soon);
  ASSERT_TRUE(greeting);
  Payload challenge{static_cast<std::byte>(Meeting::challenge)};
  challenge.resize(1 + sizeof(Nonce) + sizeof(Digest));
  send_frame(victim, challenge, soon);
  const auto presentation = read_frame(victim, reader, soon);
  ASSERT_TRUE(presentation);
  EXPECT_TRUE(std::ranges::all_of(presentation->subspan(1, sizeof(Digest)),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_THAT(refusal(std::move(joining)), HasSubstr("does not know this rank's job token"));
}

// An answer that was right once is not right again.
TEST_F(Rendezvous, AnOldProofIsWorthNothing) {
  auto zero = options(0, 2);
  zero.token = kToken;
  auto first = join(zero);
  const Deadline soon = deadline_in(Seconds(5));
  const Nonce nonce = make_nonce();
  Payload recorded;
  for (const bool replay : {false, true}) {
    const Socket rank = connect_to("127.0.0.1", port_, soon);
    send_frame(rank, hello(kMeetingVersion, nonce), soon);
    FrameReader reader(kLongestHello);
    const auto challenge = read_frame(rank, reader, soon);
    ASSERT_TRUE(challenge);
    if (!replay) {
      Payload claims;
      ByteWriter writer(claims);
      writer.put(std::uint32_t{9});  // no such rank: the proof is accepted, the rank is not
      writer.put(std::uint32_t{2});
      writer.put_text("host");
      recorded = {static_cast<std::byte>(Meeting::present)};
      ByteWriter(recorded).put(Bytes(
          prove(kToken, Prover::rank, {nonce, challenge->subspan(1, sizeof(Nonce)), claims})));
      ByteWriter(recorded).put(Bytes(claims));
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
  const Deadline soon = deadline_in(Seconds(20));
  std::vector<Socket> strangers;
  const std::size_t most = MeetingRules().most_strangers + 2 * 2;
  while (strangers.size() < most + 20) strangers.push_back(connect_to("127.0.0.1", port_, soon));
  FrameReader reader(1000);
  EXPECT_THROW(read_frame(strangers.front(), reader, soon), WireError) << "the oldest has to go";
  EXPECT_TRUE(join(options(1, 2)).get());
  EXPECT_TRUE(first.get());
}

TEST_F(Rendezvous, AStrangerHasLittleTime) {
  MeetingRules rules{2, kToken, Seconds(20)};
  rules.handshake_timeout = Seconds(0.2);
  const RendezvousServer server(std::move(listener_), rules);
  const Deadline soon = deadline_in(Seconds(10));
  const Socket silent = connect_to("127.0.0.1", port_, soon);
  FrameReader reader(1000);
  EXPECT_THROW(read_frame(silent, reader, soon), WireError);
  const Socket halfway = connect_to("127.0.0.1", port_, soon);
  send_frame(halfway, hello(kMeetingVersion, {}), soon);
  EXPECT_TRUE(read_frame(halfway, reader, soon)) << "the challenge";
  EXPECT_THROW(read_frame(halfway, reader, soon), WireError);
}

TEST_F(Rendezvous, AFloodIsNotStored) {
  const Deadline soon = deadline_in(Seconds(10));
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
    const auto refused = must_throw<ConfigError>([&] { require_token(open, host); });
    EXPECT_THAT(refused.what(), AllOf(HasSubstr(host), HasSubstr("openssl rand -hex 32"),
                                      HasSubstr("--token-file"), HasSubstr("THINWIRE_TOKEN")));
  }
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto refused = must_throw<ConfigError>([&] { require_token(guarded, host); });
    EXPECT_THAT(refused.what(), HasSubstr("all networks")) << host;
  }
}

TEST_F(Rendezvous, AMasterThatOthersReachNeedsAToken) {
  auto one = options(1, 2);
  one.master_host = "192.0.2.1";
  EXPECT_THROW(Membership{one}, ConfigError);
}

TEST(Interface, RouteDecidesUnlessToldOtherwise) {
  EXPECT_EQ(address_for_peers("", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_for_peers("lo", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_for_peers("ib7,lo", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_for_peers("127.0.0.1", "127.0.0.1"), "127.0.0.1");
}

TEST(Interface, UnknownInterfaceListsWhatExists) {
  try {
    address_for_peers("eth77", "127.0.0.1");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("eth77"));
    EXPECT_THAT(error.what(), HasSubstr("lo (127.0.0.1)"));
  }
}

TEST(Interface, UnresolvableMaster) {
  EXPECT_THROW(address_for_peers("", "no-such-host.invalid"), TransportError);
}

}  // namespace
}  // namespace thinwire
