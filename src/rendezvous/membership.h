// A rank's side of the rendezvous: joins the group, and knows at any time which ranks have finished
// or died.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/server.h"

namespace thinwire::rendezvous {

// Thread-safe, except for construction and destruction.
class Membership {
 public:
  // Returns when all ranks have joined. Throws TransportError (join) if not all ranks join in time,
  // if the master refuses this rank, or if the master cannot be reached; throws ConfigError if a
  // token is needed and none was given. On rank 0 this object runs the server until it is
  // destroyed. It takes over options.master_socket, also if it throws.
  explicit Membership(const JoinOptions& options);
  ~Membership();

  const std::vector<std::string>& hosts() const noexcept { return hosts_; }

  // Access a table that the group shares. get() waits until the key has a value, and returns
  // nothing if the deadline passes or a rank dies.
  void put(const std::string& key, Bytes value);
  std::optional<Payload> get(const std::string& key, Deadline deadline);

  // Returns the first rank that was lost, if any. After a loss the group cannot continue.
  std::optional<LostRank> loss() const;
  // Does the same, but waits until the deadline for a loss.
  std::optional<LostRank> wait_for_loss(Deadline deadline);
  // Returns whether that rank finished without an error. Bytes that it sent before may still be in
  // flight.
  bool has_left(int rank) const;
  // Sets a function that is called when a rank is lost: on a thread of this object, or on the
  // thread that calls report_suspect().
  void on_loss(std::function<void()> callback);
  // Sets a function that returns for which rank this one waits (kNoRank: for
  // none). It is called on a thread of this object.
  void on_query(std::function<int()> waits_for);

  // Reports a suspicion about a peer to rank 0, which finds the rank to blame and announces it to
  // every rank as a loss. Returns that rank; for Kind::absence there may be none. Takes at most 2.5
  // kAnswerTime. If rank 0 does not answer, rank 0 is to blame.
  std::optional<LostRank> report_suspect(FailureDetector::Kind kind, int about,
                                         const std::string& text);

  // Announces that this rank has finished its work, and waits until all others have, so that no
  // rank mistakes closed connections for a death. It waits for as long as the others answer: a rank
  // that works longer than the timeout is not lost. Returns the rank that does not answer after the
  // timeout, if any. If another rank announces a loss, it returns nothing, because this rank has
  // finished its work.
  std::optional<LostRank> leave(Seconds timeout);
  // Announces to all ranks that this rank ends by an error, and which rank is to blame: itself, or
  // the one that it lost.
  void fail(int culprit, const std::string& reason) noexcept;

 private:
  void join(const JoinOptions& options, Socket inherited);
  void authenticate(const JoinOptions& options, Deadline deadline);
  void present(const JoinOptions& options, bool proven, std::array<Nonce, 2> nonces,
               Deadline deadline);
  base::ByteReader read_answer(const JoinOptions& options, RendezvousMessage expected,
                               Deadline deadline);
  void watch();
  bool wait_for_message();
  void handle(Bytes message);
  void send(const Payload& message) noexcept;
  void answer_query();

  std::vector<std::string> hosts_;
  std::unique_ptr<RendezvousServer> server_;  // on rank 0
  Socket socket_;
  FrameReader reader_{kLongestHello};  // until the master has proven that it knows the token
  WakeUp stop_;
  std::mutex sending_;  // the socket has several writers

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Payload> values_;
  std::optional<LostRank> lost_;
  std::set<int> left_;
  bool all_finished_ = false;
  std::uint64_t queries_ = 0;  // received so far
  std::function<void()> callback_;
  std::function<int()> waits_for_;

  std::jthread watcher_;  // last: it uses the members above
};

}  // namespace thinwire::rendezvous
