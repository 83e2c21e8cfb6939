#include "collective/two_hop.h"

#include "collective/tags.h"

namespace thinwire::collective {
namespace {

Tag narrow_tag() { return tag_of(Stream::two_hop); }
Tag wide_tag() { return tag_of(Stream::two_hop, 1); }

}  // namespace

// While piece p is in flight, piece p + 1 is encoded; while the sums of p return, p - 1 is decoded.
// There is no deadlock: all receives are posted first, and a rank waits for piece p only after it
// has sent its own part of it.
void TwoHopExchange::run(Transport& wire, std::size_t pieces, TwoHop& data) {
  wire_ = &wire;
  data_ = &data;
  pieces_ = pieces;
  lay_out(wire, pieces, data);
  post_receives();
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) give(step);
    if (step >= 1 && step < pieces + 1) sum(step - 1);
    if (step >= 2) take(step - 2);
  }
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for_others([&](int rank) { wire.wait(at(given_, piece, rank).operation); });
  }
  for (const Pending& operation : returns_) wire.wait(operation);
}

void TwoHopExchange::lay_out(Transport& wire, std::size_t pieces, const TwoHop& data) {
  const std::size_t count = pieces * static_cast<std::size_t>(wire.size());
  for (Messages* messages : {&given_, &got_, &sums_}) messages->resize(count);
  returns_.clear();
  returns_.reserve(count);
  std::size_t used = 0;
  const auto place = [&](Messages& messages, std::size_t piece, int rank, std::size_t bytes) {
    // The first pass only counts the bytes, if the memory is too small.
    if (used + bytes <= memory_.size()) {
      at(messages, piece, rank).bytes = MutBytes(memory_).subspan(used, bytes);
    }
    used += bytes;
  };
  const auto place_all = [&] {
    used = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      for (int rank = 0; rank < wire.size(); ++rank) {
        place(sums_, piece, rank, data.wide_bytes(rank, piece));
        if (rank == wire.rank()) continue;
        place(given_, piece, rank, data.narrow_bytes(rank, piece));
        place(got_, piece, rank, data.narrow_bytes(wire.rank(), piece));
      }
    }
  };
  place_all();
  if (used <= memory_.size()) return;
  memory_.resize(used);
  place_all();
}

void TwoHopExchange::post_receives() {
  for (std::size_t piece = 0; piece < pieces_; ++piece) {
    for_others([&](int rank) {
      Message& narrow = at(got_, piece, rank);
      Message& wide = at(sums_, piece, rank);
      narrow.operation = wire_->post_recv(rank, narrow_tag(), narrow.bytes);
      wide.operation = wire_->post_recv(rank, wide_tag(), wide.bytes);
    });
  }
}

void TwoHopExchange::give(std::size_t piece) {
  for_others([&](int rank) {
    Message& message = at(given_, piece, rank);
    data_->give(rank, piece, message.bytes);
    message.operation = wire_->post_send(rank, narrow_tag(), message.bytes);
  });
}

void TwoHopExchange::sum(std::size_t piece) {
  data_->begin_sum(piece);
  for_others([&](int rank) {
    const Message& message = at(got_, piece, rank);
    wire_->wait(message.operation);
    data_->add(piece, message.bytes);
  });
  const MutBytes wide = at(sums_, piece, wire_->rank()).bytes;
  data_->end_sum(piece, wide);
  for_others([&](int rank) { returns_.push_back(wire_->post_send(rank, wide_tag(), wide)); });
  data_->take(wire_->rank(), piece, wide);
}

void TwoHopExchange::take(std::size_t piece) {
  for_others([&](int rank) {
    const Message& message = at(sums_, piece, rank);
    wire_->wait(message.operation);
    data_->take(rank, piece, message.bytes);
  });
}

template <class Visit>
void TwoHopExchange::for_others(Visit visit) {
  for (int distance = 1; distance < wire_->size(); ++distance) {
    visit((wire_->rank() + distance) % wire_->size());
  }
}

TwoHopExchange::Message& TwoHopExchange::at(Messages& messages, std::size_t piece, int rank) const {
  return messages[piece * static_cast<std::size_t>(wire_->size()) + static_cast<std::size_t>(rank)];
}

}  // namespace thinwire::collective
