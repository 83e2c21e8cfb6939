// The state that the lanes of a rank share on Gloo: the connections, and the waits that must end
// when a rank is lost.
//
// Gloo closes all connections when one wait times out, and a wait notices only the death of the
// peer that it waits for. The Membership informs every rank which rank died; then all waits of this
// rank are aborted.
//
// While ranks join, each of Gloo's connections listens at a port of its own and accepts the first
// client, whichever it is. So both ends prove that they know the job's token before a connection is
// used. Afterwards none of these ports is open.
#pragma once

#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rendezvous/membership.h"
#include "thinwire/launch.h"

namespace thinwire::transport {

class GlooGroup {
 public:
  using Buffer = gloo::transport::UnboundBuffer;

  // Joins the group. A group of one rank uses no network. Throws TransportError (join).
  explicit GlooGroup(const JoinOptions& options);
  ~GlooGroup();

  const std::vector<std::string>& hosts() const { return hosts_; }
  const std::vector<int>& peers() const { return peers_; }
  // The number of lanes that a slot of Gloo can tell apart; see gloo.cpp. The first one is 0.
  static constexpr int kMostLanes = 1 << 15;
  // Returns the number of a new lane, which was not used before. Called by one thread at a time.
  // Throws Error if all numbers are used.
  int next_lane();

  std::unique_ptr<Buffer> buffer(void* memory, std::size_t bytes) {
    return context_->createUnboundBuffer(memory, bytes);
  }

  // Waits for one completion of the buffer, which depends on `peer`. Returns early if a rank dies.
  // `wait_once` calls Gloo's wait and returns false if that was aborted.
  enum class Outcome { done, late, broken };
  template <class Wait>
  Outcome wait(Buffer& buffer, int peer, Seconds timeout, Wait wait_once) {
    const rendezvous::Deadline deadline = rendezvous::deadline_in(timeout);
    while (true) {
      begin_wait(buffer, peer);
      try {
        // A loss that was announced before begin_wait() did not abort this wait.
        const int limit = membership_->loss() ? 0 : rendezvous::milliseconds_left(deadline);
        const bool completed = wait_once(buffer, std::chrono::milliseconds(limit));
        end_wait(buffer);
        if (completed) return Outcome::done;
        if (membership_->loss()) return Outcome::broken;
      } catch (const gloo::IoException&) {
        end_wait(buffer);
        return rendezvous::milliseconds_left(deadline) == 0 ? Outcome::late : Outcome::broken;
      }
    }
  }

  // Return the rank to blame for a wait whose connection closed, and for a wait that timed out.
  rendezvous::LostRank culprit_of_break(int peer);
  rendezvous::LostRank culprit_of_delay(int peer, Seconds timeout);
  bool has_left(int peer) const { return membership_->has_left(peer); }

  // Called at the end of this rank's work: leave() if it succeeded; it returns the rank that is
  // lost, if any, while others are still working. fail() if it ended by an error.
  std::optional<rendezvous::LostRank> leave(Seconds timeout);
  void fail(int culprit, const std::string& reason) noexcept;

 private:
  void connect(const JoinOptions& options, const std::string& address);
  void prove_to_all(const JoinOptions& options);
  void swap_with_all(Payload& mine, Payload& theirs, rendezvous::Deadline deadline);
  [[noreturn]] void give_up(int peer, Remedy remedy, const std::string& reason);
  void begin_wait(Buffer& buffer, int peer);
  void end_wait(Buffer& buffer);
  void abort_waits();
  int longest_awaited() const;

  std::vector<std::string> hosts_;
  int rank_ = 0;
  std::vector<int> peers_;  // all ranks but this one
  int lanes_ = 1;           // how many numbers of lanes are used
  struct Wait {
    Buffer* buffer;
    int peer;
  };
  mutable std::mutex mutex_;
  std::vector<Wait> waits_;  // in the order in which they began
  std::unique_ptr<rendezvous::Membership> membership_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace thinwire::transport
