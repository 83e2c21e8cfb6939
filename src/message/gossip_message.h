// The messages of `gossip`: a model that one worker sends to another, and the control messages.
// docs/wire-format.md has the byte format.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::message {

class GossipMessage {
 public:
  enum class Kind : std::uint16_t {
    push = 1,    // a model and its weight
    request,     // a model; the receiver is to reply with its own
    reply,       // the model of the rank that got the request
    refusal,     // the receiver of a request will not reply
    last,        // number: how many models and refusals the sender has sent to the receiver
    wake,        // the receiver is to answer with a `last`, which wakes the sender's receiving task
    coded_push,  // a model in few bits per element (message/lattice.h) and its weight
  };

  // The contents of a message, valid as long as the message is not changed.
  struct Contents {
    Kind kind{};
    std::uint64_t number = 0;
    Floats model;
    Bytes coded;  // of a coded push; the caller knows the bits and checks the size
  };

  // Allocates room for a model of `numel` elements, coded or not.
  void reserve(std::size_t numel);
  // Writes a message; a model must have the size that was reserved.
  void write(Kind kind, std::uint64_t number, Floats model = {});
  // Writes the header of a coded push and returns the room for its `bytes` bytes, which the caller
  // fills.
  MutBytes write_coded(std::uint64_t number, std::size_t bytes);
  // Reads the first `received` bytes. Throws WireError if they are not a message of this version,
  // or hold a model of another size.
  Contents read(std::size_t received) const;

  bool has_model() const noexcept { return used_ > kHeadBytes; }  // as written
  Bytes bytes() const noexcept { return Bytes(memory_).first(used_); }
  MutBytes room() noexcept { return memory_; }
  MutFloats model() noexcept;  // as written or received
  Floats model() const noexcept;

 private:
  static constexpr std::size_t kHeadBytes = 16;

  Payload memory_;
  std::size_t numel_ = 0;
  std::size_t used_ = 0;
};

}  // namespace thinwire::message
