#include "transport/gloo_group.h"

#include <fmt/format.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <numeric>

#include "transport/interface.h"

namespace thinwire {
namespace {

// Gloo's key-value store, kept by the rendezvous.
class MeetingStore final : public gloo::rendezvous::Store {
 public:
  MeetingStore(Membership& membership, Deadline deadline)
      : membership_(membership), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    membership_.put("gloo/" + key, std::as_bytes(std::span(data)));
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = membership_.get("gloo/" + key, deadline_);
    if (!value) throw std::runtime_error("a worker did not publish its address");
    const auto* begin = reinterpret_cast<const char*>(value->data());
    return {begin, begin + value->size()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  Membership& membership_;
  Deadline deadline_;
};

}  // namespace

GlooGroup::GlooGroup(const JoinOptions& options) : hosts_{"this process"} {
  if (options.size == 1) return;
  const std::string address = address_for_peers(options.interface, options.master_host);
  membership_ = std::make_unique<Membership>(options);
  hosts_ = membership_->hosts();
  connect(options, address);
  peers_.resize(hosts_.size());
  std::iota(peers_.begin(), peers_.end(), 0);
  std::erase(peers_, options.rank);
  membership_->on_loss([this] { abort_waits(); });
}

GlooGroup::~GlooGroup() {
  if (membership_) membership_->on_loss({});
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
    MeetingStore store(*membership_, deadline_in(options.join_timeout));
    context_->connectFullMesh(store, device);
  } catch (const std::exception& error) {
    const auto loss = membership_->loss();
    const std::string reason =
        loss ? fmt::format("rank {} ({}) was lost meanwhile: {}", loss->rank,
                           hosts_[static_cast<std::size_t>(loss->rank)], loss->reason)
             : std::string(error.what());
    const std::string text = fmt::format(
        "rank {} ({}), listening on {}, cannot connect to all other workers: {}. Workers connect "
        "to each other on TCP ports of the system's choice: open them in the firewall, or name "
        "the right network with --interface.",
        options.rank, hosts_[static_cast<std::size_t>(options.rank)], address, reason);
    membership_->fail(text);
    throw TransportError(TransportError::Kind::join, loss ? loss->rank : -1, text);
  }
}

void GlooGroup::begin_wait(Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  waits_.push_back(&buffer);
}

void GlooGroup::end_wait(Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  std::erase(waits_, &buffer);
}

void GlooGroup::abort_waits() {
  const std::lock_guard lock(mutex_);
  for (Buffer* buffer : waits_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

Membership::Loss GlooGroup::culprit(int peer) {
  if (auto loss = membership_->wait_for_loss(deadline_in(Seconds(1)))) return *loss;
  return {peer, "the connection to it was closed"};
}

void GlooGroup::leave(Seconds timeout) noexcept {
  if (membership_) membership_->leave(deadline_in(timeout));
}

void GlooGroup::fail(const std::string& reason) noexcept {
  if (membership_) membership_->fail(reason);
}

}  // namespace thinwire
