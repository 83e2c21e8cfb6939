#include "rendezvous/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace thinwire::rendezvous {
namespace {

constexpr Seconds kSendTimeout{5};        // ranks always read, so a rank that does not has failed
constexpr std::size_t kMostRefusals = 8;  // how many refusals the error of a group lists

Payload start(RendezvousMessage kind) {
  Payload message;
  base::ByteWriter(message).put(static_cast<std::uint8_t>(kind));
  return message;
}

Payload with_number(RendezvousMessage kind, std::uint32_t number, std::string_view text) {
  Payload message = start(kind);
  base::ByteWriter writer(message);
  writer.put(number);
  writer.put_text(text);
  return message;
}

Payload with_rank(RendezvousMessage kind, int rank, std::string_view text) {
  return with_number(kind, static_cast<std::uint32_t>(rank), text);
}

Payload refusal_message(Refusal refusal, std::string_view reason) {
  return with_number(RendezvousMessage::refuse, refusal.pack(), reason);
}

}  // namespace

std::uint32_t Refusal::pack() const {
  return static_cast<std::uint32_t>(peer + 1) << 8 | static_cast<std::uint32_t>(remedy);
}

Refusal Refusal::unpack(std::uint32_t number, int group_size) {
  const auto remedy = static_cast<std::uint8_t>(number & 0xff);
  const int peer = static_cast<int>(number >> 8) - 1;
  const bool known = remedy <= static_cast<std::uint8_t>(kLastRemedy);
  return {peer < group_size ? peer : -1, known ? static_cast<Remedy>(remedy) : Remedy::none};
}

WakeUp::WakeUp() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void WakeUp::ring() noexcept {
  const std::uint64_t one = 1;
  // The write fails only if the counter is full, and then poll() returns anyway.
  [[maybe_unused]] const ssize_t written = write(event_.fd(), &one, sizeof one);
}

RendezvousServer::RendezvousServer(Socket listener, RendezvousRules rules)
    : listener_(std::move(listener)),
      rules_(std::move(rules)),
      size_(static_cast<std::size_t>(rules_.size)),
      join_deadline_(deadline_in(rules_.join_timeout)),
      thread_([this] { serve(); }) {}

RendezvousServer::~RendezvousServer() { stop_.ring(); }

void RendezvousServer::serve() {
  while (!stopped_) {
    poll_once();
    close_unauthenticated();
    conclude_when_answered();
    if (!complete_ && joined() == size_) complete_group();
    if (!complete_ && milliseconds_left(join_deadline_) == 0) give_up_joining();
  }
}

// Returns -1 if there is no deadline.
int RendezvousServer::milliseconds_to_wait() const {
  int shortest = complete_ ? -1 : milliseconds_left(join_deadline_);
  if (detector_) shortest = milliseconds_left(answers_due_);  // only if the group is complete
  for (const auto& client : clients_) {
    if (client->rank != kNoRank) continue;
    const int left = milliseconds_left(client->deadline);
    shortest = shortest < 0 ? left : std::min(shortest, left);
  }
  return shortest;
}

void RendezvousServer::poll_once() {
  std::vector<pollfd> entries{{stop_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
  for (const auto& client : clients_) entries.push_back({client->socket.fd(), POLLIN, 0});
  if (poll(entries.data(), entries.size(), milliseconds_to_wait()) <= 0) return;

  for (std::size_t i = 2; i < entries.size(); ++i) {
    if (entries[i].revents != 0) read(*clients_[i - 2]);
  }
  if (entries[1].revents != 0) accept_one();
  if (entries[0].revents != 0) stopped_ = true;
}

void RendezvousServer::accept_one() {
  Socket socket = accept_from(listener_);
  if (!socket) return;
  clients_.push_back(std::make_unique<Client>());
  clients_.back()->address = peer_of(socket);
  clients_.back()->deadline = deadline_in(rules_.handshake_timeout);
  clients_.back()->socket = std::move(socket);
}

void RendezvousServer::close_unauthenticated() {
  std::erase_if(clients_, [](const auto& client) {
    return !client->socket || (client->rank < 0 && milliseconds_left(client->deadline) == 0);
  });
  const auto is_stranger = [](const auto& client) { return client->rank < 0; };
  const auto strangers = static_cast<std::size_t>(std::ranges::count_if(clients_, is_stranger));
  if (strangers <= rules_.most_strangers + 2 * size_) return;
  clients_.erase(std::ranges::find_if(clients_, is_stranger));
}

void RendezvousServer::read(Client& client) {
  try {
    const bool open = client.reader.fill(client.socket);
    while (client.socket) {
      const auto message = client.reader.next();
      if (!message) break;
      handle(client, *message);
    }
    if (!open) drop(client);
  } catch (const WireError&) {
    drop(client);  // the client does not follow the protocol
  }
}

void RendezvousServer::handle(Client& client, Bytes message) {
  if (client.rank == kNoRank) {
    return client.challenged ? admit(client, message) : challenge(client, message);
  }
  base::ByteReader reader(message, "rendezvous message");
  const auto kind = static_cast<RendezvousMessage>(reader.get<std::uint8_t>());
  if (kind == RendezvousMessage::put || kind == RendezvousMessage::get) {
    answer_get_or_put(client, kind, reader);
  } else if (kind == RendezvousMessage::finished) {
    client.finished = true;
    finished_.insert(client.rank);
    broadcast(with_rank(RendezvousMessage::left, client.rank, ""));
    if (finished_.size() == size_) broadcast(start(RendezvousMessage::all_finished));
  } else if (kind == RendezvousMessage::fail) {
    const auto culprit = reader.get<std::uint32_t>();
    if (culprit >= size_) {
      throw WireError(fmt::format(
          "rendezvous: rank {} reported a failure of rank {}, which is not in this group (size {})",
          client.rank, culprit, size_));
    }
    announce_loss(static_cast<int>(culprit), reader.get_text(kLongestText));
  } else if (kind == RendezvousMessage::report_suspect) {
    const auto about = static_cast<int>(reader.get<std::uint32_t>());
    const auto suspicion = static_cast<FailureDetector::Kind>(reader.get<std::uint8_t>());
    query_all({client.rank, about, suspicion, reader.get_text(kLongestText)});
  } else if (kind == RendezvousMessage::answer) {
    const auto waits_for = static_cast<std::int32_t>(reader.get<std::uint32_t>());
    if (waits_for < kNoRank || waits_for >= static_cast<int>(size_)) {
      throw WireError(
          fmt::format("rendezvous: rank {} waits for rank {}, which is not in this group (size {})",
                      client.rank, waits_for, size_));
    }
    if (detector_) detector_->answer(client.rank, waits_for);
  } else {
    throw WireError(fmt::format("rendezvous: unknown message (kind {})", static_cast<int>(kind)));
  }
}

void RendezvousServer::answer_get_or_put(Client& client, RendezvousMessage kind,
                                         base::ByteReader& reader) {
  const std::string key = reader.get_text(kLongestText);
  if (kind == RendezvousMessage::put) {
    const Bytes value = reader.take(reader.left());
    values_[key].assign(value.begin(), value.end());
  } else {
    waiting_.emplace(key, client.rank);
  }
  const auto value = values_.find(key);
  if (value == values_.end()) return;
  Payload answer = start(RendezvousMessage::value);
  base::ByteWriter writer(answer);
  writer.put_text(key);
  writer.put(Bytes(value->second));
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto asker = begin; asker != end; ++asker) {
    for (const auto& c : clients_) {
      if (c->rank == asker->second) send(*c, answer);
    }
  }
  waiting_.erase(begin, end);
}

// The hello of every version begins with these fields.
void RendezvousServer::challenge(Client& client, Bytes message) {
  base::ByteReader reader(message, "hello");
  if (static_cast<RendezvousMessage>(reader.get<std::uint8_t>()) != RendezvousMessage::hello) {
    throw WireError("rendezvous: the first message is not a hello");
  }
  if (reader.get<std::uint32_t>() != kProtocolMagic)
    throw WireError("rendezvous: wrong magic number; the client is not a thinwire worker");
  const auto version = reader.get<std::uint16_t>();
  if (version != kProtocolVersion) {
    return refuse(
        client, {-1, Remedy::match_options},
        fmt::format("rank 0 speaks rendezvous version {}, the worker at {} version {}; run "
                    "the same thinwire everywhere",
                    kProtocolVersion, client.address, version));
  }
  client.its_nonce = take_array<Nonce>(reader);
  reader.expect_end();
  client.our_nonce = make_nonce();
  client.challenged = true;
  Payload answer = start(RendezvousMessage::challenge);
  base::ByteWriter writer(answer);
  writer.put(Bytes(client.our_nonce));
  writer.put(Bytes(prove(rules_.token, Role::master, {client.its_nonce, client.our_nonce})));
  send(client, answer);
}

void RendezvousServer::admit(Client& client, Bytes message) {
  base::ByteReader reader(message, "rendezvous present message");
  if (static_cast<RendezvousMessage>(reader.get<std::uint8_t>()) != RendezvousMessage::present) {
    throw WireError("rendezvous: the second message is not a present message");
  }
  const auto proof = take_array<base::Digest>(reader);
  const Bytes claims = message.last(reader.left());
  const bool proven = base::equal_digests(
      proof, prove(rules_.token, Role::rank, {client.its_nonce, client.our_nonce, claims}));
  const auto rank = reader.get<std::uint32_t>();
  const auto size = reader.get<std::uint32_t>();
  client.host = base::visible(reader.get_text(kLongestText));
  reader.expect_end();
  const int peer = rank < size_ ? static_cast<int>(rank) : -1;
  if (!proven) {
    return refuse(client, {peer, Remedy::share_token},
                  fmt::format("rank {} ({}) at {} does not know the job token", rank, client.host,
                              client.address));
  }
  if (size != size_ || rank >= size_) {
    return refuse(client, {peer, Remedy::match_options},
                  fmt::format("rank {} on {} was started for {} workers, but rank 0 for {}; give "
                              "every rank the same number of workers",
                              rank, client.host, size, size_));
  }
  for (const auto& other : clients_) {
    if (other->rank == static_cast<int>(rank)) {
      return refuse(client, {peer},
                    fmt::format("rank {} exists twice, on {} and on {}; give every worker its own "
                                "rank, and every job its own port",
                                rank, other->host, client.host));
    }
  }
  client.rank = static_cast<int>(rank);
  client.reader.allow(kLongestMessage);
}

void RendezvousServer::refuse(Client& client, Refusal refusal, const std::string& reason) {
  if (refused_.empty()) remedy_ = refusal.remedy;
  const bool known = std::ranges::find(refused_, reason) != refused_.end();
  if (!known && refused_.size() < kMostRefusals) refused_.push_back(reason);
  send(client, refusal_message(refusal, reason));
  client.socket.close();
}

void RendezvousServer::complete_group() {
  complete_ = true;
  std::vector<std::string> hosts(size_);
  for (const auto& client : clients_) {
    if (client->rank != kNoRank) hosts[static_cast<std::size_t>(client->rank)] = client->host;
  }
  Payload message = start(RendezvousMessage::welcome);
  for (const std::string& host : hosts) base::ByteWriter(message).put_text(host);
  broadcast(message);
}

void RendezvousServer::give_up_joining() {
  std::vector<int> missing(size_);
  for (std::size_t i = 0; i < size_; ++i) missing[i] = static_cast<int>(i);
  for (const auto& client : clients_) std::erase(missing, client->rank);
  std::string reason = fmt::format("{} of {} workers joined in time; missing: rank {}", joined(),
                                   size_, fmt::join(missing, ", "));
  for (const std::string& other : refused_) reason += "; refused: " + other;
  const int peer = missing.size() == 1 ? missing.front() : -1;
  broadcast(refusal_message({peer, remedy_}, reason));  // only to ranks whose proof was accepted
  stopped_ = true;
}

void RendezvousServer::announce_loss(int rank, const std::string& reason) {
  if (std::exchange(lost_, true)) return;  // later losses are consequences of the first one
  broadcast(with_rank(RendezvousMessage::lost, rank, reason));
}

void RendezvousServer::query_all(FailureDetector::Suspicion suspicion) {
  if (suspicion.about < 0 || suspicion.about >= static_cast<int>(size_)) {
    throw WireError(
        fmt::format("rendezvous: rank {} suspects rank {}, which is not in this group (size {})",
                    suspicion.asker, suspicion.about, size_));
  }
  if (suspicion.kind > FailureDetector::Kind::absence) {
    throw WireError(
        fmt::format("rendezvous: unknown suspicion (kind {})", static_cast<int>(suspicion.kind)));
  }
  // It also shows ranks that report later that rank 0 is working.
  broadcast(start(RendezvousMessage::query));
  if (detector_ || lost_) return;
  detector_.emplace(std::move(suspicion));
  answers_due_ = deadline_in(kAnswerTime);
}

void RendezvousServer::conclude_when_answered() {
  if (!detector_) return;
  const std::set<int> ranks = expected();
  if (milliseconds_left(answers_due_) > 0 && !detector_->answered_by(ranks)) return;
  const std::optional<LostRank> loss = detector_->find_culprit(ranks);
  detector_.reset();
  if (loss) announce_loss(loss->rank, loss->reason);
}

std::set<int> RendezvousServer::expected() const {
  std::set<int> ranks;
  for (const auto& client : clients_) {
    if (client->rank != kNoRank && client->socket && !client->finished) ranks.insert(client->rank);
  }
  return ranks;
}

void RendezvousServer::drop(Client& client) {
  client.socket.close();
  if (client.rank != kNoRank && !client.finished && complete_) {
    announce_loss(client.rank, "its process ended or its machine is gone");
  }
}

void RendezvousServer::send(Client& client, const Payload& message) noexcept {
  if (!client.socket) return;
  try {
    send_frame(client.socket, message, deadline_in(kSendTimeout));
  } catch (const std::exception&) {
    // The server will read the end of the stream next and announce the loss.
  }
}

void RendezvousServer::broadcast(const Payload& message) noexcept {
  for (const auto& client : clients_) {
    if (client->rank != kNoRank) send(*client, message);
  }
}

std::size_t RendezvousServer::joined() const {
  return static_cast<std::size_t>(
      std::count_if(clients_.begin(), clients_.end(),
                    [](const auto& c) { return c->rank != kNoRank && c->socket; }));
}

}  // namespace thinwire::rendezvous
