// A model on its way from one worker to another, and the few words that gossip needs besides.
// docs/wire-format.md has the bytes.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::message {

class GossipMessage {
 public:
  enum class Kind : std::uint16_t {
    push = 1,    // a model and its weight
    request,     // a model, for the one of the receiver
    reply,       // the model of whoever was asked
    refusal,     // of a request
    last,        // number: of the messages with models or refusals that were sent to the receiver
    wake,        // the sender's own receiver is to be woken by a `last`
    coded_push,  // a model in few bits (codec/lattice.h) and its weight
  };

  // What a message says. Valid as long as the message is not changed.
  struct Contents {
    Kind kind{};
    std::uint64_t number = 0;
    Floats model;
    Bytes coded;  // of a coded push; whoever knows the bits checks its size
  };

  // Room for a model of so many elements, coded or not.
  void reserve(std::size_t numel);
  // A model must be of that size.
  void write(Kind kind, std::uint64_t number, Floats model = {});
  // A coded push of so many bytes: the room for them, to be filled.
  MutBytes write_coded(std::uint64_t number, std::size_t bytes);
  // WireError if the first `received` bytes are no message of this version, or hold a model of
  // another size.
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
