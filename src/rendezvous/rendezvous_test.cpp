// Tests joining: groups in which all ranks join, and every way in which joining fails.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "rendezvous/interface.h"
#include "testing/rendezvous_group.h"

namespace thinwire::rendezvous {
namespace {

using test::kToken;
using test::Rendezvous;

using testing::HasSubstr;

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_F(Rendezvous, AllRanksLearnAllHostsAndShareValues) {
  const auto members = join_all(5);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(members[static_cast<std::size_t>(rank)]->hosts().size(), 5u);
    members[static_cast<std::size_t>(rank)]->put(fmt::format("k{}", rank), bytes("value"));
  }
  for (const auto& member : members) {
    for (int rank = 0; rank < 5; ++rank) {
      const auto value = member->get(fmt::format("k{}", rank), deadline_in(test::kPatience));
      ASSERT_TRUE(value);
      EXPECT_TRUE(std::ranges::equal(*value, bytes("value")));
    }
  }
  EXPECT_FALSE(members[1]->get("absent", deadline_in(Seconds(0.05))));
}

TEST_F(Rendezvous, LeavingWaitsForTheLast) {
  const auto members = join_all(3);
  std::vector<std::future<void>> leaving;
  for (const auto& member : members) {
    leaving.push_back(
        std::async(std::launch::async, [&] { EXPECT_FALSE(member->leave(test::kPatience)); }));
  }
  for (auto& left : leaving) left.get();
  for (const auto& member : members) EXPECT_FALSE(member->loss());
  EXPECT_TRUE(members[0]->has_left(2));
}

TEST_F(Rendezvous, AnErrorOfOneRankReachesAllRanksWithItsText) {
  const auto members = join_all(3);
  members[2]->fail(2, "the disk is full");
  for (const auto& member : members) {
    const auto loss = member->wait_for_loss(deadline_in(test::kPatience));
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 2);
    EXPECT_EQ(loss->reason, "the disk is full");
  }
}

TEST_F(Rendezvous, ARankThatFailsBecauseOfAnotherBlamesThatOne) {
  const auto members = join_all(3);
  members[2]->fail(1, "rank 2 timed out waiting for it");
  for (const auto& member : members) {
    const auto loss = member->wait_for_loss(deadline_in(test::kPatience));
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 1);
  }
}

TEST_F(Rendezvous, ARankThatVanishesIsNamed) {
  auto members = join_all(4);
  members[2].reset();
  for (const int survivor : {0, 1, 3}) {
    const auto loss =
        members[static_cast<std::size_t>(survivor)]->wait_for_loss(deadline_in(test::kPatience));
    ASSERT_TRUE(loss) << survivor;
    EXPECT_EQ(loss->rank, 2);
  }
}

TEST_F(Rendezvous, AVanishedMasterIsNamed) {
  auto members = join_all(3);
  members[0].reset();
  const auto loss = members[2]->wait_for_loss(deadline_in(test::kPatience));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
}

// The rank behaves like a stopped process: its connection is open, but it does not answer.
TEST_F(Rendezvous, ASilentRankIsFoundAndAnnouncedToAll) {
  std::promise<void> awake;
  const auto members = join_all(3);
  members[0]->on_query([] { return 1; });
  members[2]->on_query([&] { return awake.get_future().wait(), kNoRank; });
  const auto loss =
      members[1]->report_suspect(FailureDetector::Kind::delay, 0, "no progress for 1.0 s");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  EXPECT_THAT(loss->reason, HasSubstr("no progress for 1.0 s, and it does not answer"));
  const auto heard = members[0]->wait_for_loss(deadline_in(test::kPatience));
  awake.set_value();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->reason, loss->reason);
  EXPECT_FALSE(members[0]->leave(test::kPatience))
      << "rank 0 has handled the loss and finished its work";
}

TEST_F(Rendezvous, ARankThatWaitsForNoneIsBlamed) {
  const auto members = join_all(4);
  const auto waits_for = [&](std::size_t rank, int other) {
    members[rank]->on_query([=] { return other; });
  };
  waits_for(0, 3);
  waits_for(1, 0);
  waits_for(3, 2);
  const auto loss =
      members[1]->report_suspect(FailureDetector::Kind::delay, 0, "no progress for 1.0 s");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  for (const auto& member : members) {
    EXPECT_EQ(member->wait_for_loss(deadline_in(test::kPatience))->rank, 2);
  }
}

TEST_F(Rendezvous, AMasterThatIsSilentIsToBlame) {
  auto joining = join(options(1, 2));
  ASSERT_TRUE(wait_readable(listener_, deadline_in(test::kPatience)));
  const Socket member = accept_from(listener_);
  const Deadline soon = deadline_in(test::kPatience);
  FrameReader reader(1000);
  const auto greeting = read_frame(member, reader, soon);
  ASSERT_TRUE(greeting);
  const Nonce nonce{};
  Payload challenge{static_cast<std::byte>(RendezvousMessage::challenge)};
  base::ByteWriter(challenge).put(Bytes(nonce));
  base::ByteWriter(challenge).put(Bytes(
      prove(options(1, 2).token, Role::master, {greeting->last(sizeof(Nonce)), Bytes(nonce)})));
  send_frame(member, challenge, soon);
  ASSERT_TRUE(read_frame(member, reader, soon)) << "the present message";
  Payload welcome{static_cast<std::byte>(RendezvousMessage::welcome)};
  for (const char* host : {"stopped-host", "this-host"}) base::ByteWriter(welcome).put_text(host);
  send_frame(member, welcome, soon);
  const auto joined = joining.get();
  // Rank 0 does not announce the loss, so this process must notify its own waits.
  bool notified = false;
  joined->on_loss([&] { notified = true; });
  const auto loss = joined->leave(Seconds(0.1));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_THAT(loss->reason, HasSubstr("no final message for 0.1 s, and it does not answer"));
  EXPECT_TRUE(notified);
}

// Rank 1 works for several timeouts of rank 0, which asks it several times whether it is alive.
TEST_F(Rendezvous, ARankThatIsStillWorkingIsNotLost) {
  const auto members = join_all(2);
  std::atomic<int> questions = 0;
  members[1]->on_query([&] { return ++questions, kNoRank; });
  auto leaving = std::async(std::launch::async, [&] { return members[0]->leave(Seconds(0.05)); });
  const Deadline patience = deadline_in(test::kPatience);
  while (questions < 2 && milliseconds_left(patience) > 0) {
    EXPECT_EQ(leaving.wait_for(std::chrono::milliseconds(10)), std::future_status::timeout);
  }
  EXPECT_FALSE(members[1]->loss());
  EXPECT_FALSE(members[1]->leave(test::kPatience));
  EXPECT_FALSE(leaving.get());
  EXPECT_FALSE(members[0]->loss());
}

TEST_F(Rendezvous, MissingRanksAreListed) {
  auto zero = options(0, 4), one = options(1, 4);
  zero.join_timeout = test::kEnoughToJoin;
  auto joining = join(zero);
  const TransportError error = refused(join(one));
  expect_facts(error, 1, -1, Remedy::raise_join_timeout);
  EXPECT_THAT(error.what(), HasSubstr("2 of 4 workers joined in time; missing: rank 2, 3"));
  expect_facts(refused(std::move(joining)), 0, -1, Remedy::raise_join_timeout);
}

TEST_F(Rendezvous, AMissingRankIsBlamedIfItIsTheOnlyOne) {
  auto zero = options(0, 3);
  zero.join_timeout = test::kEnoughToJoin;
  auto joining = join(zero);
  expect_facts(refused(join(options(1, 3))), 1, 2, Remedy::raise_join_timeout);
  expect_facts(refused(std::move(joining)), 0, 2, Remedy::raise_join_timeout);
}

TEST_F(Rendezvous, ARefusalIsPackedIntoOneNumber) {
  const auto repacked = [](Refusal refusal) { return Refusal::unpack(refusal.pack(), 4); };
  EXPECT_EQ(repacked({3, kLastRemedy}).peer, 3);
  EXPECT_EQ(to_string(repacked({3, kLastRemedy}).remedy), to_string(kLastRemedy));
  EXPECT_EQ(repacked({-1}).peer, -1);
  EXPECT_EQ(repacked({4}).peer, -1) << "not a rank of this group";
  EXPECT_EQ(to_string(Refusal::unpack(0xffffffff, 4).remedy), "none")
      << "a remedy of a later version";
  EXPECT_EQ(Refusal::unpack(0xffffffff, 4).peer, -1);
}

TEST_F(Rendezvous, DuplicateRankIsRefused) {
  auto zero = options(0, 3);
  zero.join_timeout = test::kEnoughToJoin;
  auto first = join(zero);
  auto one = join(options(1, 3)), other_one = join(options(1, 3));
  const std::string words = refusal(std::move(one)) + refusal(std::move(other_one));
  EXPECT_THAT(words, HasSubstr("rank 1 exists twice"));
  EXPECT_THAT(refusal(std::move(first)), HasSubstr("refused: rank 1 exists twice"));
}

TEST_F(Rendezvous, WrongWorldSizeIsRefused) {
  auto zero = options(0, 2);
  zero.join_timeout = test::kEnoughToJoin;
  auto first = join(zero);
  const TransportError error = refused(join(options(1, 3)));
  expect_facts(error, 1, 1, Remedy::match_options);
  EXPECT_THAT(error.what(), HasSubstr("was started for 3 workers, but rank 0 for 2"));
  EXPECT_THAT(refusal(std::move(first)), HasSubstr("was started for 3 workers"));
}

TEST_F(Rendezvous, ARankThatJoinsLateDoesNotDisturbACompleteGroup) {
  const auto members = join_all(2);
  EXPECT_THAT(refusal(join(options(1, 2))), HasSubstr("rank 1 exists twice"));
  EXPECT_FALSE(members[1]->loss());
}

TEST_F(Rendezvous, PortInUse) {
  auto zero = options(0, 2);
  const Socket kept(zero.master_socket);
  zero.master_socket = -1;
  const TransportError error = refused(join(zero));
  expect_facts(error, 0, 0, Remedy::choose_master);
  EXPECT_THAT(error.what(), HasSubstr("the port is in use"));
}

TEST_F(Rendezvous, MasterAddressOfAnotherMachine) {
  auto zero = options(0, 2);
  const Socket kept(zero.master_socket);
  zero.master_socket = -1;
  zero.master_host = "192.0.2.1";  // TEST-NET-1: an address that no machine has
  zero.token = kToken;
  const TransportError error = refused(join(zero));
  expect_facts(error, 0, 0, Remedy::choose_master);
  EXPECT_EQ(error.fields().host, "192.0.2.1");
  EXPECT_THAT(error.what(), HasSubstr("no address of this machine"));
}

TEST_F(Rendezvous, AbsentMaster) {
  auto one = options(1, 2);
  listener_.close();
  one.join_timeout = Seconds(0.3);
  const TransportError error = refused(join(one));
  expect_facts(error, 1, 0, Remedy::raise_join_timeout);
  EXPECT_THAT(error.what(), HasSubstr("no answer from the master"));
}

TEST_F(Rendezvous, MasterThatIsAnotherProgram) {
  auto one = options(1, 2);
  auto joining = join(one);
  ASSERT_TRUE(wait_readable(listener_, deadline_in(test::kPatience)));
  const Socket stranger = accept_from(listener_);
  send_frame(stranger, bytes("HTTP/1.1 400 Bad Request"), deadline_in(Seconds(1)));
  EXPECT_THAT(refusal(std::move(joining)), HasSubstr("is not thinwire"));
}

TEST_F(Rendezvous, OtherProgramsAreDisconnected) {
  auto first = join(options(0, 2));
  const Deadline soon = deadline_in(test::kPatience);
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

TEST_F(Rendezvous, AnotherVersionIsRefusedWithTheReason) {
  for (const int difference : {-1, 1}) {
    auto zero = options(0, 2);
    zero.join_timeout = Seconds(0.5);
    auto first = join(zero);
    const Deadline soon = deadline_in(test::kPatience);
    const Socket other = connect_to("127.0.0.1", port_, soon);
    send_frame(other, test::hello(static_cast<std::uint16_t>(kProtocolVersion + difference), {}),
               soon);
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

TEST(Interface, TheRouteDecidesUnlessAnInterfaceIsNamed) {
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
    EXPECT_THAT(error.what(), HasSubstr("interface 'eth77': not up on this machine"));
    EXPECT_THAT(error.what(), HasSubstr("lo (127.0.0.1)"));
    EXPECT_EQ(to_string(error.fields().remedy), "choose_interface");
  }
}

TEST(Interface, UnresolvableMaster) {
  try {
    address_for_peers("", "no-such-host.invalid");
    FAIL();
  } catch (const TransportError& error) {
    EXPECT_EQ(error.peer(), 0);
    EXPECT_EQ(error.fields().host, "no-such-host.invalid");
    EXPECT_EQ(to_string(error.fields().remedy), "choose_master");
  }
}

}  // namespace
}  // namespace thinwire::rendezvous
