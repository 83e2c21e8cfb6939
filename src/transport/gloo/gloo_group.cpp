#include "transport/gloo/gloo_group.h"

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "rendezvous/interface.h"
#include "transport/gloo/gloo_store.h"

namespace thinwire::transport {
namespace {

// No message of a transport uses this slot, because a piece would have 2^31 - 1 bytes.
constexpr std::uint64_t kProofSlot = ~std::uint64_t{0};

}  // namespace

GlooGroup::GlooGroup(const JoinOptions& options) : hosts_{"this process"} {
  rendezvous::Socket listener(options.master_socket);  // closes it unless the membership takes it
  if (options.size == 1) return;
  const std::string address = rendezvous::address_for_peers(options.interface, options.master_host);
  rendezvous::require_token(options, address);
  [[maybe_unused]] const int taken = listener.release();
  membership_ = std::make_unique<rendezvous::Membership>(options);
  hosts_ = membership_->hosts();
  peers_.resize(hosts_.size());
  std::iota(peers_.begin(), peers_.end(), 0);
  std::erase(peers_, options.rank);
  rank_ = options.rank;
  connect(options, address);
  membership_->on_loss([this] { abort_waits(); });
  membership_->on_query([this] { return longest_awaited(); });
  prove_to_all(options);
}

GlooGroup::~GlooGroup() {
  if (!membership_) return;
  membership_->on_loss({});
  membership_->on_query({});
}

int GlooGroup::next_lane() {
  if (lanes_ < kMostLanes) return lanes_++;
  ErrorFields fields;
  fields.rank = rank_;
  fields.operation = "lane";
  throw Error(fmt::format("gloo: all {} lanes of this group are used, also those of closed "
                          "sessions; keep sessions open, or join a new group",
                          kMostLanes),
              std::move(fields));
}

void GlooGroup::connect(const JoinOptions& options, const std::string& address) {
  const auto limit =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.join_timeout.count() * 1e3));
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    context_ = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context_->setTimeout(limit);
    RendezvousStore store(*membership_, rendezvous::deadline_in(options.join_timeout));
    context_->connectFullMesh(store, device);
  } catch (const std::exception& error) {
    const auto loss = membership_->report_suspect(
        rendezvous::FailureDetector::Kind::absence, (options.rank + 1) % options.size,
        fmt::format("no connection for {:.1f} s", options.join_timeout.count()));
    const std::string reason =
        loss ? fmt::format("rank {} ({}) was lost meanwhile: {}", loss->rank,
                           hosts_[static_cast<std::size_t>(loss->rank)], loss->reason)
             : std::string(error.what());
    give_up(
        loss ? loss->rank : kNoRank, Remedy::choose_interface,
        fmt::format("rank {} ({}): cannot connect to all other workers from {} ({}); workers "
                    "connect to each other on TCP ports that the system chooses: open them in "
                    "the firewall, or use another network",
                    options.rank, hosts_[static_cast<std::size_t>(options.rank)], address, reason));
  }
}

void GlooGroup::give_up(int peer, Remedy remedy, const std::string& reason) {
  membership_->fail(rank_, reason);
  ErrorFields fields;
  fields.rank = rank_;
  fields.peer = peer;
  if (peer != kNoRank) fields.host = hosts_[static_cast<std::size_t>(peer)];
  fields.operation = "join";
  fields.remedy = remedy;
  throw TransportError(TransportError::Kind::join, reason, std::move(fields));
}

void GlooGroup::prove_to_all(const JoinOptions& options) {
  const std::size_t size = hosts_.size();
  const rendezvous::Deadline deadline = rendezvous::deadline_in(options.join_timeout);
  const rendezvous::Nonce nonce = rendezvous::make_nonce();
  Payload mine, nonces(size * nonce.size());
  for (std::size_t peer = 0; peer < size; ++peer) base::ByteWriter(mine).put(Bytes(nonce));
  swap_with_all(mine, nonces, deadline);

  // Returns the proof that `from` sends to `to`. It covers the nonces of both.
  const auto proof = [&](int from, int to, Bytes asked, Bytes own) {
    const std::uint32_t ranks[] = {static_cast<std::uint32_t>(from),
                                   static_cast<std::uint32_t>(to)};
    return prove(options.token, rendezvous::Role::pair,
                 {asked, own, std::as_bytes(std::span(ranks))});
  };
  const auto nonce_of = [&](int peer) {
    return Bytes(nonces).subspan(static_cast<std::size_t>(peer) * nonce.size(), nonce.size());
  };
  Payload proofs(size * sizeof(base::Digest));
  mine.clear();
  for (int peer = 0; peer < options.size; ++peer) {
    base::ByteWriter(mine).put(Bytes(proof(options.rank, peer, nonce_of(peer), nonce)));
  }
  swap_with_all(mine, proofs, deadline);
  base::ByteReader reader(proofs, "proofs");
  for (int peer = 0; peer < options.size; ++peer) {
    const auto theirs = rendezvous::take_array<base::Digest>(reader);
    if (peer == options.rank) continue;
    if (base::equal_digests(theirs, proof(peer, options.rank, nonce, nonce_of(peer)))) continue;
    give_up(
        peer, Remedy::none,
        fmt::format("rank {} ({}): the other end of the connection to rank {} ({}) does not know "
                    "the job token; another program took the port while the workers joined: "
                    "start the job again, and see docs/security.md",
                    options.rank, hosts_[static_cast<std::size_t>(options.rank)], peer,
                    hosts_[static_cast<std::size_t>(peer)]));
  }
}

// Sends part p of `mine` to rank p, and receives its answer into part p of `theirs`.
void GlooGroup::swap_with_all(Payload& mine, Payload& theirs, rendezvous::Deadline deadline) {
  const std::size_t part = mine.size() / hosts_.size();
  const auto out = buffer(mine.data(), mine.size()), in = buffer(theirs.data(), theirs.size());
  std::set<int> silent(peers_.begin(), peers_.end());
  Outcome outcome = Outcome::done;
  const auto wait_one = [&](Buffer& which, auto wait_once) {
    if (outcome != Outcome::done) return;
    outcome =
        wait(which, kAnyRank, Seconds(rendezvous::milliseconds_left(deadline) / 1e3), wait_once);
  };
  try {
    for (const int peer : peers_) {
      const std::size_t offset = static_cast<std::size_t>(peer) * part;
      in->recv(peer, kProofSlot, offset, part);
      out->send(peer, kProofSlot, offset, part);
    }
  } catch (const gloo::IoException&) {
    outcome = Outcome::broken;
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    int from = -1;
    wait_one(*in, [&](Buffer& which, auto limit) { return which.waitRecv(&from, limit); });
    wait_one(*out, [](Buffer& which, auto limit) { return which.waitSend(limit); });
    silent.erase(from);
  }
  if (outcome == Outcome::done) return;
  const int suspect = silent.empty() ? peers_.front() : *silent.begin();
  const rendezvous::LostRank loss = outcome == Outcome::broken
                                        ? culprit_of_break(suspect)
                                        : rendezvous::LostRank{suspect, "it sends nothing"};
  give_up(loss.rank, Remedy::none,
          fmt::format("rank {} ({}): rank {} ({}) does not prove that it knows the job token: {}",
                      rank_, hosts_[static_cast<std::size_t>(rank_)], loss.rank,
                      hosts_[static_cast<std::size_t>(loss.rank)], loss.reason));
}

void GlooGroup::begin_wait(Buffer& buffer, int peer) {
  const std::lock_guard lock(mutex_);
  waits_.push_back({&buffer, peer});
}

void GlooGroup::end_wait(Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waits_, [&](const Wait& wait) { return wait.buffer == &buffer; });
}

void GlooGroup::abort_waits() {
  const std::lock_guard lock(mutex_);
  for (const Wait& wait : waits_) {
    wait.buffer->abortWaitRecv();
    wait.buffer->abortWaitSend();
  }
}

// Waits for a message from any rank are left out, because no particular rank is to blame for them.
int GlooGroup::longest_awaited() const {
  const std::lock_guard lock(mutex_);
  const auto wait = std::ranges::find_if(waits_, [](const Wait& w) { return w.peer != kAnyRank; });
  return wait == waits_.end() ? kNoRank : wait->peer;
}

rendezvous::LostRank GlooGroup::culprit_of_break(int peer) {
  // Most connections close because a rank died or failed, and the server will announce that within
  // this time.
  constexpr Seconds kAnnouncementTime{0.3};
  if (const auto loss = membership_->wait_for_loss(rendezvous::deadline_in(kAnnouncementTime)))
    return *loss;
  const int about = peer == kAnyRank ? peers_.front() : peer;
  return *membership_->report_suspect(rendezvous::FailureDetector::Kind::broken, about,
                                      "the connection to it was closed");
}

rendezvous::LostRank GlooGroup::culprit_of_delay(int peer, Seconds timeout) {
  return *membership_->report_suspect(rendezvous::FailureDetector::Kind::delay, peer,
                                      fmt::format("no progress for {:.1f} s", timeout.count()));
}

std::optional<rendezvous::LostRank> GlooGroup::leave(Seconds timeout) {
  return membership_ ? membership_->leave(timeout) : std::nullopt;
}

void GlooGroup::fail(int culprit, const std::string& reason) noexcept {
  if (membership_) membership_->fail(culprit, reason);
}

}  // namespace thinwire::transport
