#include "transport/sim/sim_group.h"

#include <algorithm>
#include <cstring>

namespace thinwire::transport::sim {

namespace s4u = simgrid::s4u;

namespace {

bool done(const Operation& o) { return o.matched && o.transfer->has_left; }
bool flowing(const Operation& o) { return o.transfer != nullptr && !o.transfer->has_left; }

}  // namespace

Group::Group(const Stage& stage, const Network& network)
    : stage_(stage),
      network_(network),
      matchers_(stage.hosts.size()),
      gone_(stage.hosts.size()),
      present_(static_cast<int>(stage.hosts.size())) {
  static const bool connected = [] {
    s4u::Activity::on_completion_cb(flow_ended);
    return true;
  }();
  static_cast<void>(connected);
}

void Group::post_send(Operation& operation, int to) {
  const std::uint32_t ticket = transfers_.acquire();
  Transfer& transfer = transfers_[ticket];
  transfer.group = this;
  transfer.ticket = ticket;
  transfer.holders = 2;
  transfer.from = operation.from;
  transfer.to = to;
  transfer.bytes = operation.out.size();
  transfer.send = &operation;
  transfer.has_left = false;

  operation.peer = operation.receiver = to;
  operation.matched = false;
  operation.transfer = &transfer;
  operation.received = {operation.from, transfer.bytes};
  if (Operation* receive = matchers_[static_cast<std::size_t>(to)].post_send(operation)) {
    match(operation, *receive);
  }
  enqueue(stream(operation.lane, operation.from, to), transfer);
}

void Group::post_receive(Operation& operation, int receiver) {
  operation.peer = operation.from;
  operation.receiver = receiver;
  operation.matched = false;
  operation.transfer = nullptr;
  Operation* send = matchers_[static_cast<std::size_t>(receiver)].post_receive(operation);
  if (send == nullptr) return;
  match(*send, operation);
  if (done(*send)) wake(send);
}

void Group::match(Operation& send, Operation& receive) {
  Transfer& transfer = *send.transfer;
  send.matched = receive.matched = true;
  receive.transfer = &transfer;
  receive.received = send.received;
  transfer.receive = &receive;
  ++transfer.holders;
  if (transfer.bytes > 0 && transfer.bytes <= receive.in.size()) {
    std::memcpy(receive.in.data(), send.out.data(), transfer.bytes);
  }
}

Stream& Group::stream(int lane, int from, int to) {
  const auto part = [](int number) { return static_cast<std::uint64_t>(number); };
  static_assert(kMaxActors <= 1 << 16);
  return streams_[part(lane) << 32 | part(from) << 16 | part(to)];
}

void Group::enqueue(Stream& stream, Transfer& transfer) {
  transfer.stream = &stream;
  transfer.next = nullptr;
  if (stream.first != nullptr) {
    stream.last = stream.last->next = &transfer;
    return;
  }
  stream.first = stream.last = &transfer;
  in_kernel([&] { advance(stream); });
}

// Runs in the simulation kernel. Completes the transfers at the head of the stream that take no
// time, and starts the first one that takes time.
void Group::advance(Stream& stream) {
  while (stream.first != nullptr) {
    Transfer& transfer = *stream.first;
    if (network_.bits_per_second > 0 && transfer.bytes > 0) return start_flow(transfer);
    left(transfer);
  }
}

void Group::start_flow(Transfer& transfer) {
  transfer.flow = s4u::Comm::sendto_init();
  transfer.flow->set_payload_size(transfer.bytes);
  transfer.flow->set_data(&transfer);
  transfer.flow->set_source(host(transfer.from));
  transfer.flow->set_destination(host(transfer.to));  // starts it
}

void Group::flow_ended(const s4u::Activity& activity) {
  Transfer& transfer = *activity.get_data<Transfer>();
  Group& group = *transfer.group;
  Stream& stream = *transfer.stream;
  group.left(transfer);
  if (group.present_ > 0) group.advance(stream);
}

void Group::left(Transfer& transfer) {
  transfer.has_left = true;
  transfer.left_at = now();
  transfer.stream->first = transfer.next;
  wake(transfer.send);
  wake(transfer.receive);
  release(transfer);
}

bool Group::wait(Operation& operation, s4u::Semaphore& semaphore, Seconds timeout) {
  const Seconds start = now();
  bool late = false;
  while (!done(operation)) {
    if (const auto lost = loss(operation)) {
      end(operation);
      throw *lost;
    }
    // The simulated network never stalls, so bytes in flight need no deadline.
    if (flowing(operation)) {
      late = block(operation, semaphore, -1);
      continue;
    }
    const Seconds silent_since =
        operation.transfer != nullptr ? std::max(start, operation.transfer->left_at) : start;
    const Seconds remaining = silent_since + timeout - now();
    if (late || remaining <= Seconds(0)) {
      end(operation);
      return false;
    }
    late = block(operation, semaphore, std::min(remaining, kLongest).count());
  }
  if (operation.transfer->receive == &operation) {
    pause(operation.transfer->left_at + network_.latency - now());
  }
  end(operation);
  return true;
}

bool Group::block(Operation& operation, s4u::Semaphore& semaphore, double seconds) {
  operation.blocked = &semaphore;
  operation.place = blocked_.size();
  blocked_.push_back(&operation);
  const ExceptionsAside aside;
  const bool passed = semaphore.acquire_timeout(seconds);
  operation.blocked = nullptr;
  blocked_.back()->place = operation.place;
  blocked_[operation.place] = blocked_.back();
  blocked_.pop_back();
  return passed;
}

void Group::wake(Operation* operation) {
  if (operation == nullptr || operation->blocked == nullptr) return;
  const ExceptionsAside aside;
  std::exchange(operation->blocked, nullptr)->release();
}

void Group::cancel(Operation& operation) noexcept {
  if (operation.receiver != Operation::kOver) end(operation);
}

void Group::end(Operation& operation) noexcept {
  if (!operation.matched) {
    matchers_[static_cast<std::size_t>(operation.receiver)].withdraw(operation);
  }
  operation.receiver = Operation::kOver;
  Transfer* transfer = std::exchange(operation.transfer, nullptr);
  if (transfer == nullptr) return;
  if (transfer->send == &operation) transfer->send = nullptr;
  if (transfer->receive == &operation) transfer->receive = nullptr;
  release(*transfer);
}

void Group::release(Transfer& transfer) noexcept {
  if (--transfer.holders == 0) transfers_.release(transfer.ticket);
}

void Group::leave(int rank, const std::optional<std::string>& death) {
  if (death && !dead_) dead_ = Lost{rank, *death};
  gone_[static_cast<std::size_t>(rank)] = true;
  --present_;
  in_kernel([&] {
    for (Operation* operation : blocked_) {
      if (loss(*operation)) wake(operation);
    }
  });
}

// If a rank has failed, every wait ends. If a rank has ended without an error, only the waits for
// operations of that rank end.
std::optional<Group::Lost> Group::loss(const Operation& operation) const {
  if (dead_) return dead_;
  if (operation.matched || operation.peer == kAnyRank) return std::nullopt;
  if (!gone_[static_cast<std::size_t>(operation.peer)]) return std::nullopt;
  return Lost{operation.peer, "it has already finished"};
}

}  // namespace thinwire::transport::sim
