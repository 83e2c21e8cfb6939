// The rendezvous server of a group. Rank 0 listens; every rank (0 included) keeps one connection to
// it for the life of the group. Both sides prove that they know the job's token before any other
// message. Over the connection ranks find each other, exchange addresses, say farewell, and learn
// within moments which rank died, also if they wait for another. docs/wire-format.md has the
// messages.
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

// First byte of every message.
enum class RendezvousMessage : std::uint8_t {
  hello = 1,            // rank -> server: magic, version, nonce
  welcome = 2,          // server -> rank: all hosts; the group is complete
  refuse = 3,           // server -> rank: a Refusal, why not
  put = 4,              // rank -> server: key, value
  get = 5,              // rank -> server: key
  value = 6,            // server -> rank: key, value
  bye = 7,              // rank -> server: finished in peace
  fail = 8,             // rank -> server: finished by an error: the rank to blame, its text
  left = 9,             // server -> ranks: that rank finished in peace
  lost = 10,            // server -> ranks: that rank died, why
  farewell = 11,        // server -> ranks: all have said bye
  challenge = 12,       // server -> rank: nonce, proof
  present = 13,         // rank -> server: proof, rank, size, host
  report_suspect = 14,  // rank -> server: about which rank, its kind, text
  ask = 15,             // server -> ranks: whom do you wait for? A suspicion is being looked into
  answer = 16,          // rank -> server: the rank it waits for, or none
};
inline constexpr std::uint32_t kMeetingMagic = 0x56525754;  // "TWRV"
inline constexpr std::uint16_t kMeetingVersion = 3;
inline constexpr std::size_t kLongestMeetingMessage = 64u << 20;
inline constexpr std::size_t kLongestMeetingText = 64u << 10;
inline constexpr std::size_t kLongestHello = 1024;  // all that a stranger can make us store
// The time that a rank, or rank 0, has to answer a question. The threads that answer do no
// training.
inline constexpr Seconds kAnswerTime{1};

// Why a rank may not join: which rank is to blame (-1: no single one), and what the user can
// change. It travels in one number of the refuse message, which older versions ignore.
struct Refusal {
  int peer = -1;
  Remedy remedy = Remedy::none;

  std::uint32_t pack() const;
  // Values that this version does not know become "unknown".
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

struct RendezvousRules {
  int size = 1;
  std::string token;
  Seconds join_timeout{30};       // for the whole group
  Seconds handshake_timeout{10};  // for one connection, from its first byte to its proof
  // How many connections without a proof are kept besides two for each rank. When there are more,
  // the oldest is closed: a rank that knows the token needs only a moment to prove it.
  std::size_t most_strangers = 256;
};

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
    int rank = -1;  // -1 until its proof was accepted
    std::string host;
    bool peaceful = false;
  };

  void serve();
  int milliseconds_to_wait() const;
  void poll_once();
  void accept_one();
  void drop_silent_strangers();
  void read(Client& client);
  void handle(Client& client, Bytes message);
  void challenge(Client& client, Bytes message);
  void admit(Client& client, Bytes message);
  void answer_get_or_put(Client& client, RendezvousMessage kind, base::ByteReader& reader);
  void refuse(Client& client, Refusal refusal, const std::string& reason);
  void welcome_all();
  void give_up_joining();
  void announce_loss(int rank, const std::string& reason);
  void query_all(FailureDetector::Suspicion suspicion);
  void conclude_when_answered();
  std::set<int> expected() const;  // ranks that have neither left nor died
  void drop(Client& client);
  void send(Client& client, const Payload& message) noexcept;
  void broadcast(const Payload& message) noexcept;
  std::size_t joined() const;

  Socket listener_;
  RendezvousRules rules_;
  std::size_t size_;
  Deadline join_deadline_;
  bool complete_ = false;  // all ranks were welcomed
  bool stopped_ = false;
  std::vector<std::unique_ptr<Client>> clients_;  // in the order in which they came
  std::vector<std::string> refused_;              // for the error of a group that never completes
  Remedy remedy_ = Remedy::raise_join_timeout;    // the same, of the first refusal if there was one
  std::map<std::string, Payload> values_;
  std::multimap<std::string, int> waiting_;  // key -> rank that asked for it
  bool lost_ = false;
  std::set<int> peaceful_;
  std::optional<FailureDetector> detector_;
  Deadline answers_due_;
  WakeUp stop_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace thinwire::rendezvous
