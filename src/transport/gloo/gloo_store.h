// The store by which Gloo's connections exchange their addresses.
#pragma once

#include <gloo/rendezvous/store.h>

#include <stdexcept>

#include "rendezvous/membership.h"

namespace thinwire::transport {

// Gloo's key-value store, backed by the table of the rendezvous.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  RendezvousStore(rendezvous::Membership& membership, rendezvous::Deadline deadline)
      : membership_(membership), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    membership_.put("gloo/" + key, std::as_bytes(std::span(data)));
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = membership_.get("gloo/" + key, deadline_);
    if (!value)
      throw std::runtime_error("rendezvous: a worker did not publish its address (" + key + ")");
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
  rendezvous::Membership& membership_;
  rendezvous::Deadline deadline_;
};

}  // namespace thinwire::transport
