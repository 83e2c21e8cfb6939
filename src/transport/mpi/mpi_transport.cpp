// A message travels as pieces of kPiece bytes and a last one that is shorter, perhaps empty: MPI
// counts are ints, a deadline per piece tells a slow link from a dead peer, and the short piece
// tells a receiver that does not know the length where the message ends.
//
// A receiver gives memory to MPI only for pieces whose length it has seen (MPI_Improbe). Posting a
// receive and relying on MPI_ERR_TRUNCATE is not safe: Open MPI 4 fetches a long message from
// another process of the machine whole, past the end of the memory posted for it.
//
// Pieces of one (sender, tag) are matched in the order sent. The receives that may take them do so
// in the order posted, one when the one before has matched its last piece. All waits do this for
// all receives of the lane, since a peer may be waiting for any of them.
#include "transport/mpi/mpi_transport.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace thinwire::transport {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;
// A failed lane waits this long for transfers that are under way and cannot be taken back.
constexpr Seconds kGrace{0.5};
constexpr std::string_view kStuck = "an earlier failure left a transfer that MPI cannot take back";

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
          fmt::format("not all ranks came within {:.1f} s; the output of the others tells why",
                      collective.timeout.count()));
    }
    if (meanwhile) meanwhile();
  }
}

MPI_Comm duplicate(MPI_Comm parent, const Collective& collective, std::atomic<bool>& stuck,
                   const std::function<void()>& meanwhile) {
  // Not on the stack: after a time-out MPI may still write there.
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

// MPI_Comm_free is collective in the standard, though Open MPI and MPICH free locally. After a
// failure the peers may not come, so the communicator is left to the end of the process; nor is its
// number given to another lane, which late messages could then reach.
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

// Lets each receive take the pieces that have come for it. True if there were any.
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
      ++i;  // a failed one stays too: what comes next is the rest of its message
    }
  }
  return moved;
}

// The older receive that may still take pieces meant for this one.
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
    operation.peer = status.MPI_SOURCE;  // a message from any rank goes on from the same
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

// Takes note of the pieces that have been carried.
void MpiTransport::advance(Operation& operation) {
  const std::size_t total =
      operation.kind == Pending::Kind::send ? operation.out.size() : operation.matched;
  while (operation.next < operation.pieces.size()) {
    int complete = 0;
    const int code = MPI_Test(&operation.pieces[operation.next], &complete, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
      operation.pieces[operation.next++] = MPI_REQUEST_NULL;  // a request that failed is done with
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
    if (unlimited && silent != kAnyRank) {
      throw PeerLost{silent, "this process waited for it in vain", operation.done};
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

// A receive that has matched nothing is simply forgotten. A piece on its way cannot be taken back,
// nor can a send (MPI_Cancel has no effect on either in Open MPI). They get a moment to end; if
// they do not, the process gives up MPI, since any later call might touch memory whose owner has
// freed it. What this cannot prevent is that a peer on the same machine, or a network card, reads
// such a message from our memory before this process ends.
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
