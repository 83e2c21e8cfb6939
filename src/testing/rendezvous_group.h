// A group that joins at a port of its own, for the tests of joining and of the token.
#pragma once

#include <gtest/gtest.h>

#include <future>

#include "base/bytes.h"
#include "rendezvous/membership.h"
#include "rendezvous/server.h"

namespace thinwire::test {

inline constexpr Seconds kPatience{60};  // for operations that take milliseconds on an idle machine
// The master of a group that stays incomplete gives up after this time; ranks that exist have
// joined by then.
inline constexpr Seconds kEnoughToJoin{3};
inline const std::string kToken = "a token of this test, long enough";

// Rank 0 inherits the listening socket.
class Rendezvous : public testing::Test {
 protected:
  Rendezvous()
      : listener_(rendezvous::listen_at("127.0.0.1", 0)), port_(rendezvous::port_of(listener_)) {}

  JoinOptions options(int rank, int size) {
    JoinOptions out;
    out.rank = rank;
    out.size = size;
    out.master_port = port_;
    out.join_timeout = kPatience;
    if (rank == 0) out.master_socket = listener_.release();
    return out;
  }

  using Joining = std::future<std::unique_ptr<rendezvous::Membership>>;
  static Joining join(const JoinOptions& options) {
    return std::async(std::launch::async,
                      [=] { return std::make_unique<rendezvous::Membership>(options); });
  }
  std::vector<std::unique_ptr<rendezvous::Membership>> join_all(int size) {
    std::vector<Joining> joining;
    for (int rank = 0; rank < size; ++rank) joining.push_back(join(options(rank, size)));
    std::vector<std::unique_ptr<rendezvous::Membership>> members;
    for (auto& member : joining) members.push_back(member.get());
    return members;
  }

  // Returns the error with which joining fails.
  static TransportError refused(Joining joining) {
    try {
      joining.get();
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::join);
      EXPECT_EQ(error.fields().operation, "join");
      return error;
    }
    return {TransportError::Kind::lost, "no error", {}};
  }
  // Returns the text of that error.
  static std::string refusal(Joining joining) { return refused(std::move(joining)).what(); }

  // Checks which rank reports the error, which rank it blames, and what the user can change.
  static void expect_facts(const Error& error, int rank, int peer, Remedy remedy) {
    EXPECT_EQ(error.fields().rank, rank) << error.what();
    EXPECT_EQ(error.fields().peer, peer) << error.what();
    EXPECT_EQ(to_string(error.fields().remedy), to_string(remedy)) << error.what();
  }

  rendezvous::Socket listener_;
  std::uint16_t port_;
};

// Returns the first message of a worker of that version.
inline Payload hello(std::uint16_t version, const rendezvous::Nonce& nonce) {
  Payload out;
  base::ByteWriter writer(out);
  writer.put(static_cast<std::uint8_t>(rendezvous::RendezvousMessage::hello));
  writer.put(rendezvous::kProtocolMagic);
  writer.put(version);
  writer.put(Bytes(nonce));
  return out;
}

}  // namespace thinwire::test
