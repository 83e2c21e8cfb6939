// A message is sent as pieces of kPiece bytes and a last one that is shorter, perhaps empty. There
// are three reasons: MPI counts are ints; a deadline per piece distinguishes a slow link from a
// dead peer; and the short piece marks the end for a receiver that does not know the length.
//
// A receiver passes memory to MPI only for pieces whose length it already knows (MPI_Improbe). It
// is not safe to post a receive and rely on MPI_ERR_TRUNCATE: Open MPI 4 copies all of a long
// message from another process of the machine, past the end of the posted memory.
//
// Pieces with the same (sender, tag) are matched in the order sent. The receives that accept them
// are served in the order posted: a receive starts when the one before has matched its last piece.
// Every wait does this for all receives of the lane, because a peer may be waiting for any of them.
#include "transport/mpi/mpi_transport.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace thinwire::transport {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;
// How long a failed lane waits for transfers that are in progress and cannot be cancelled.
constexpr Seconds kGrace{0.5};
constexpr std::string_view kStuck = "an earlier failure left a transfer that MPI cannot cancel";

}  // namespace

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  const bool known = MPI_Error_string(code, text, &length) == MPI_SUCCESS;
  return known ? std::string(text, static_cast<std::size_t>(length))
               : fmt::format("MPI error {}", code);
}

void Backoff::pause() noexcept {
  constexpr unsigned kSpins = 100, kYields = 400;
  ++turn_;
  if (turn_ <= kSpins) return;
  if (turn_ <= kSpins + kYields) {
    sched_yield();
    return;
  }
  const unsigned microseconds = std::min((turn_ - kSpins - kYields) / 4 + 1, 50u);
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void Collective::check(int code) const {
  if (code != MPI_SUCCESS) fail(mpi_text(code));
}

void Collective::fail(std::string_view reason) const {
  ErrorFields fields;
  fields.rank = rank;
  fields.operation = operation;
  fields.seconds = timeout;
  fields.remedy =
      kind == TransportError::Kind::join ? Remedy::raise_join_timeout : Remedy::raise_timeout;
  throw TransportError(kind, fmt::format("{}: {}", what, reason), std::move(fields));
}

void finish(MPI_Request& request, const Collective& collective, std::atomic<bool>& stuck,
            const std::function<void()>& meanwhile) {
  Runtime& runtime = system_runtime();
  const Seconds deadline = runtime.now() + collective.timeout;
  for (Backoff backoff;; backoff.pause()) {
    int complete = 0;
    if (stuck) collective.fail(kStuck);
    collective.check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
    if (complete != 0) return;
    if (runtime.now() >= deadline) {
      stuck = true;
      collective.fail(
          fmt::format("not all ranks took part within {:.1f} s; see the output of the other ranks",
                      collective.timeout.count()));
    }
    if (meanwhile) meanwhile();
  }
}

MPI_Comm duplicate(MPI_Comm parent, const Collective& collective, std::atomic<bool>& stuck,
                   const std::function<void()>& meanwhile) {
  // This is not on the stack, because MPI may still write to it after a timeout.
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  if (stuck) collective.fail(kStuck);
  collective.check(MPI_Comm_idup(parent, comm.get(), &request));
  try {
    finish(request, collective, stuck, meanwhile);
  } catch (...) {
    static_cast<void>(comm.release());
    throw;
  }
  collective.check(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
  return *comm;
}

MpiTransport::MpiTransport(MPI_Comm comm, int rank, std::vector<std::string> hosts,
                           MpiHealth& health)
    : Transport(rank, std::move(hosts), system_runtime()),
      line_(std::make_shared<Line>(comm, health)),
      health_(health) {}

MpiTransport::MpiTransport(const MpiTransport& first, std::shared_ptr<Line> line)
    : Transport(first, system_runtime()), line_(std::move(line)), health_(first.health_) {}

// MPI_Comm_free is collective in the standard, although Open MPI and MPICH free locally. After a
// failure the peers may not call it, so the communicator is never freed. This also keeps MPI from
// giving its number to another lane, which late messages could then reach.
MpiTransport::Line::~Line() {
  if (!failed && !health.stuck) MPI_Comm_free(&comm);
}

MpiTransport::~MpiTransport() { do_cancel(); }

std::uint32_t MpiTransport::begin(Pending::Kind kind, int peer, Tag tag) {
  const std::uint32_t ticket = operations_.acquire();
  Operation& operation = operations_[ticket];
  operation.kind = kind;
  operation.peer = peer;
  operation.tag = static_cast<int>(tag);
  operation.matched = operation.done = operation.next = 0;
  operation.queued = false;
  operation.pieces.clear();
  return ticket;
}

std::uint32_t MpiTransport::do_post_send(int to, Tag tag, Bytes message) {
  const std::uint32_t ticket = begin(Pending::Kind::send, to, tag);
  Operation& operation = operations_[ticket];
  operation.out = message;
  operation.state = State::moving;
  operation.pieces.resize(message.size() / kPiece + 1, MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < operation.pieces.size() && !health_.stuck; ++i) {
    const Bytes piece = message.subspan(i * kPiece);
    const int code = MPI_Isend(piece.data(), static_cast<int>(std::min(piece.size(), kPiece)),
                               MPI_BYTE, to, operation.tag, line_->comm, &operation.pieces[i]);
    if (code != MPI_SUCCESS) {
      lose(operation, code);
      break;
    }
  }
  return ticket;
}

std::uint32_t MpiTransport::do_post_recv(int from, Tag tag, MutBytes into, Fit fit) {
  const std::uint32_t ticket = begin(Pending::Kind::receive, from, tag);
  Operation& operation = operations_[ticket];
  operation.in = into;
  operation.fit = fit;
  operation.state = State::matching;
  operation.pieces.reserve(into.size() / kPiece + 1);
  matching_.push_back(ticket);
  return ticket;
}

// Matches the pieces that have arrived with the receives. Returns whether there were any.
bool MpiTransport::match_all() {
  bool moved = false;
  for (std::size_t i = 0; i < matching_.size();) {
    Operation& operation = operations_[matching_[i]];
    const Operation* older = blocker(operation, i);
    operation.queued = older != nullptr;
    if (operation.state == State::matching && older == nullptr) moved |= match(operation);
    if (older != nullptr && older->failed()) inherit(operation, *older);
    if (operation.state == State::moving) {
      matching_.erase(matching_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;  // a failed receive stays, too: the next pieces are the rest of its message
    }
  }
  return moved;
}

// Returns an older receive that accepts the same pieces and is not complete; null if there is none.
const MpiTransport::Operation* MpiTransport::blocker(const Operation& operation,
                                                     std::size_t place) {
  for (std::size_t i = 0; i < place; ++i) {
    const Operation& older = operations_[matching_[i]];
    const bool same_sender =
        older.peer == operation.peer || older.peer == kAnyRank || operation.peer == kAnyRank;
    if (older.tag == operation.tag && same_sender) return &older;
  }
  return nullptr;
}

void MpiTransport::inherit(Operation& operation, const Operation& older) {
  operation.state = older.state;
  operation.code = older.code;
  operation.peer = older.peer;
  operation.matched = older.matched;
}

// Returns whether a piece arrived.
bool MpiTransport::match(Operation& operation) {
  bool moved = false;
  while (operation.state == State::matching) {
    int found = 0, count = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    const int source = operation.peer == kAnyRank ? MPI_ANY_SOURCE : operation.peer;
    int code = MPI_Improbe(source, operation.tag, line_->comm, &found, &message, &status);
    if (code == MPI_SUCCESS && found == 0) return moved;
    if (code == MPI_SUCCESS) code = MPI_Get_count(&status, MPI_BYTE, &count);
    if (code != MPI_SUCCESS) return lose(operation, code);
    moved = true;
    operation.peer = status.MPI_SOURCE;  // the other pieces come from the same rank
    const std::size_t start = operation.matched, bytes = static_cast<std::size_t>(count);
    operation.matched += bytes;
    const bool last = bytes < kPiece;
    const bool wanted =
        operation.matched <= operation.in.size() &&
        !(last && operation.fit == Fit::exact && operation.matched != operation.in.size());
    if (!wanted) {
      operation.state = State::wrong_size;
      return true;
    }
    code = MPI_Imrecv(operation.in.data() + start, count, MPI_BYTE, &message,
                      &operation.pieces.emplace_back(MPI_REQUEST_NULL));
    if (code != MPI_SUCCESS) return lose(operation, code);
    if (last) operation.state = State::moving;
  }
  return moved;
}

// Updates the operation: which of its pieces are complete.
void MpiTransport::advance(Operation& operation) {
  const std::size_t total =
      operation.kind == Pending::Kind::send ? operation.out.size() : operation.matched;
  while (operation.next < operation.pieces.size()) {
    int complete = 0;
    const int code = MPI_Test(&operation.pieces[operation.next], &complete, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
      operation.pieces[operation.next++] = MPI_REQUEST_NULL;  // a request that failed is complete
      lose(operation, code);
      return;
    }
    if (complete == 0) return;
    operation.done = std::min(++operation.next * kPiece, total);
  }
  if (operation.state == State::moving) operation.state = State::complete;
}

bool MpiTransport::lose(Operation& operation, int code) {
  operation.state = State::lost;
  operation.code = code;
  return true;
}

void MpiTransport::raise(const Operation& operation) {
  if (operation.state == State::wrong_size) throw WrongSize{operation.peer, operation.matched};
  throw PeerLost{operation.peer,
                 operation.state == State::lost ? mpi_text(operation.code) : std::string(kStuck),
                 operation.done};
}

Received MpiTransport::do_wait(const Pending& pending, Seconds timeout) {
  Operation& operation = operations_[pending.ticket];
  Backoff backoff;
  Seconds deadline = now() + timeout;
  const bool unlimited = timeout >= kLongestTimeout;
  while (true) {
    if (operation.failed() || health_.stuck) raise(operation);
    const int silent = health_.silent;
    if (unlimited && silent != kNoRank) {
      throw PeerLost{silent, "another lane of this process has already timed out waiting for it",
                     operation.done};
    }
    const std::size_t matched = operation.matched, next = operation.next;
    const bool any_matched = match_all();
    advance(operation);
    if (operation.state == State::complete) break;
    const bool moved =
        operation.matched != matched || operation.next != next || (any_matched && operation.queued);
    if (moved) {
      backoff.reset();
      deadline = now() + timeout;
    } else if (now() >= deadline) {
      if (operation.peer != kAnyRank) health_.silent = operation.peer;
      throw DeadlinePassed{operation.done};
    } else {
      backoff.pause();
    }
  }
  operation.state = State::idle;
  operations_.release(pending.ticket);
  return {operation.kind == Pending::Kind::send ? rank() : operation.peer, operation.done};
}

std::unique_ptr<Transport> MpiTransport::do_lane() {
  const std::string what = fmt::format("rank {} ({}): opening a lane", rank(), host(rank()));
  const MPI_Comm comm =
      duplicate(line_->comm, {what, TransportError::Kind::deadline, timeout(), rank()},
                health_.stuck, [this] { match_all(); });
  return std::unique_ptr<Transport>(new MpiTransport(*this, std::make_shared<Line>(comm, health_)));
}

std::unique_ptr<Transport> MpiTransport::do_clone_handle() {
  return std::unique_ptr<Transport>(new MpiTransport(*this, line_));
}

// A receive that has matched nothing is dropped. A piece in transfer cannot be cancelled, nor can a
// send (MPI_Cancel has no effect on either in Open MPI). They get kGrace to complete. If they do
// not, this process never calls MPI again, because any call might touch memory that its owner has
// freed. One case remains: a peer on the same machine, or a network card, may read such a message
// from the memory of this process before the process ends.
void MpiTransport::do_cancel() noexcept {
  matching_.clear();
  const Seconds deadline = now() + kGrace;
  Backoff backoff;
  for (Operation& operation : operations_) {
    if (operation.state == State::idle) continue;
    line_->failed = true;
    let_end(operation, deadline, backoff);
    operation.state = State::idle;
  }
}

void MpiTransport::let_end(Operation& operation, Seconds deadline, Backoff& backoff) noexcept {
  while (!health_.stuck) {
    advance(operation);
    if (operation.next == operation.pieces.size()) return;
    if (now() >= deadline) health_.stuck = true;
    backoff.pause();
  }
}

}  // namespace thinwire::transport
