// The rendezvous server of a group. Rank 0 listens; every rank (0 included) keeps one connection to
// it as long as the group exists. Both sides prove that they know the job's token before any other
// message. Over the connection ranks join, exchange addresses, announce that they have finished,
// and are notified at once when any rank dies. docs/wire-format.md has the messages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "rendezvous/auth.h"
#include "rendezvous/failure_detector.h"
#include "rendezvous/socket.h"
#include "thinwire/launch.h"

namespace thinwire::rendezvous {

// The first byte of every message.
enum class RendezvousMessage : std::uint8_t {
  hello = 1,            // rank -> server: magic, version, nonce
  welcome = 2,          // server -> rank: all hosts; the group is complete
  refuse = 3,           // server -> rank: a Refusal, and the reason
  put = 4,              // rank -> server: key, value
  get = 5,              // rank -> server: key
  value = 6,            // server -> rank: key, value
  finished = 7,         // rank -> server: finished without an error
  fail = 8,             // rank -> server: ended by an error: the rank to blame, the text
  left = 9,             // server -> ranks: which rank finished without an error
  lost = 10,            // server -> ranks: which rank was lost, and the reason
  all_finished = 11,    // server -> ranks: all have sent `finished`
  challenge = 12,       // server -> rank: nonce, proof
  present = 13,         // rank -> server: proof, rank, size, host
  report_suspect = 14,  // rank -> server: the suspected rank, the kind, the text
  query = 15,           // server -> ranks: for which rank do you wait? (after a suspicion)
  answer = 16,          // rank -> server: the rank it waits for, or none
};
inline constexpr std::uint32_t kProtocolMagic = 0x56525754;  // "TWRV"
inline constexpr std::uint16_t kProtocolVersion = 3;
inline constexpr std::size_t kLongestMessage = 64u << 20;
inline constexpr std::size_t kLongestText = 64u << 10;
inline constexpr std::size_t kLongestHello = 1024;  // of a client without a proof
// The time in which a rank, or rank 0, must answer. It can be short, because the threads that
// answer do no training.
inline constexpr Seconds kAnswerTime{1};

// Why a rank may not join: which rank is to blame (-1: no single one), and what the user can
// change. It is sent as one number of the refuse message, which older versions ignore.
struct Refusal {
  int peer = kNoRank;
  Remedy remedy = Remedy::none;

  std::uint32_t pack() const;
  // Values that this version does not know become -1 and Remedy::none.
  static Refusal unpack(std::uint32_t number, int group_size);
};

// An event that poll(2) can wait for.
class WakeUp {
 public:
  WakeUp();
  void ring() noexcept;
  int fd() const noexcept { return event_.fd(); }

 private:
  Socket event_;
};

// The options of a server.
struct RendezvousRules {
  int size = 1;
  std::string token;
  Seconds join_timeout{30};       // for the whole group
  Seconds handshake_timeout{10};  // for one connection, from its first byte to its proof
  // How many connections without a proof are kept, in addition to two for each rank. When there are
  // more, the oldest is closed. Ranks that know the token prove it within milliseconds.
  std::size_t most_strangers = 256;
};

// Serves on a thread of its own until it is destroyed.
class RendezvousServer {
 public:
  RendezvousServer(Socket listener, RendezvousRules rules);
  ~RendezvousServer();

 private:
  struct Client {
    Socket socket;
    std::string address;
    Deadline deadline;  // of the handshake
    FrameReader reader{kLongestHello};
    bool challenged = false;
    Nonce its_nonce{}, our_nonce{};
    int rank = kNoRank;  // until its proof was accepted
    std::string host;
    bool finished = false;  // without an error
  };

  void serve();
  int milliseconds_to_wait() const;
  void poll_once();
  void accept_one();
  void close_unauthenticated();
  void read(Client& client);
  void handle(Client& client, Bytes message);
  void challenge(Client& client, Bytes message);
  void admit(Client& client, Bytes message);
  void answer_get_or_put(Client& client, RendezvousMessage kind, base::ByteReader& reader);
  void refuse(Client& client, Refusal refusal, const std::string& reason);
  void complete_group();
  void give_up_joining();
  void announce_loss(int rank, const std::string& reason);
  void query_all(FailureDetector::Suspicion suspicion);
  void conclude_when_answered();
  std::set<int> expected() const;  // ranks that have neither finished nor died
  void drop(Client& client);
  void send(Client& client, const Payload& message) noexcept;
  void broadcast(const Payload& message) noexcept;
  std::size_t joined() const;

  Socket listener_;
  RendezvousRules rules_;
  std::size_t size_;
  Deadline join_deadline_;
  bool complete_ = false;  // all ranks have joined
  bool stopped_ = false;
  std::vector<std::unique_ptr<Client>> clients_;  // in the order in which they came
  std::vector<std::string> refused_;              // for the error of a group that never completes
  Remedy remedy_ = Remedy::raise_join_timeout;  // for the same error; that of the first refusal, if
                                                // there was one
  std::map<std::string, Payload> values_;
  std::multimap<std::string, int> waiting_;  // key -> rank that asked for it
  bool lost_ = false;
  std::set<int> finished_;
  std::optional<FailureDetector> detector_;
  Deadline answers_due_;
  WakeUp stop_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace thinwire::rendezvous
