// A rank's side of the rendezvous: joins the group, and knows at any moment who left or died.
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

class Membership {
 public:
  // Returns when all ranks have joined. TransportError (join) if they do not, if this one is not
  // wanted or does not know the job's token, or if the master cannot be reached; ConfigError if a
  // token is needed and none was given. Rank 0 serves the others until it is destroyed.
  explicit Membership(const JoinOptions& options);
  ~Membership();

  const std::vector<std::string>& hosts() const noexcept { return hosts_; }

  // A table shared by the group. get waits until the key is there; empty if the deadline passes
  // or a rank dies.
  void put(const std::string& key, Bytes value);
  std::optional<Payload> get(const std::string& key, Deadline deadline);

  // The first rank that died, if any: nothing more can be expected of the group.
  std::optional<LostRank> loss() const;
  // The same, waiting for the news until the deadline.
  std::optional<LostRank> wait_for_loss(Deadline deadline);
  // Returns whether that rank finished without an error. Bytes that it sent before may still be on
  // their way.
  bool has_left(int rank) const;
  // Called when a rank has died, on a thread of this object or on that of whoever reports a
  // suspect.
  void on_loss(std::function<void()> callback);
  // Called on a thread of this object, to learn for which rank this one waits
  // (FailureDetector::kNobody: for none).
  void on_question(std::function<int()> waits_for);

  // Has rank 0 find out who is to blame for a suspicion about a peer. Every rank hears the
  // find_culprit as a loss; of a mere absence there may be none. Takes at most 2.5 kAnswerTime;
  // rank 0 itself is to blame if it does not answer.
  std::optional<LostRank> report_suspect(FailureDetector::Kind kind, int about,
                                         const std::string& text);

  // Says farewell and waits until all others did: nobody takes the closing of connections for a
  // death. Returns who does not answer when the time is over. A loss that others announce ends the
  // wait in peace: this rank has done its work.
  std::optional<LostRank> leave(Seconds timeout);
  // Announces to all ranks that this rank ends by an error, and which rank is to blame: itself, or
  // the one that it lost.
  void fail(int culprit, const std::string& reason) noexcept;

 private:
  void join(const JoinOptions& options);
  void greet(const JoinOptions& options, Deadline deadline);
  void present(const JoinOptions& options, bool proven, std::array<Nonce, 2> nonces,
               Deadline deadline);
  base::ByteReader read_answer(const JoinOptions& options, RendezvousMessage expected,
                               Deadline deadline);
  void watch();
  bool wait_for_news();
  void handle(Bytes message);
  void send(const Payload& message) noexcept;
  void answer_question();

  std::vector<std::string> hosts_;
  std::unique_ptr<RendezvousServer> server_;  // on rank 0
  Socket socket_;
  FrameReader reader_{kLongestHello};  // until the master has proven itself
  WakeUp stop_;
  std::mutex sending_;  // the socket has several writers

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Payload> values_;
  std::optional<LostRank> lost_;
  std::set<int> left_;
  bool farewell_ = false;
  std::uint64_t questions_ = 0;  // heard so far
  std::function<void()> callback_;
  std::function<int()> waits_for_;

  std::jthread watcher_;  // last: it uses the members above
};

}  // namespace thinwire::rendezvous
