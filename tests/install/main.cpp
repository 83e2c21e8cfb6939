// Uses thinwire the way a program of somebody else does: sums a number over three ranks in threads,
// catches the library's errors by their types, and names the transports it was given.
#include <thinwire/thinwire.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

static_assert(THINWIRE_VERSION_MAJOR == 0 && THINWIRE_VERSION_MINOR >= 2);

namespace {

using namespace thinwire;

void sum_over_ranks(Transport& wire) {
  const int next = (wire.rank() + 1) % 3, last = (wire.rank() + 2) % 3;
  int theirs = -1;
  const int mine = 10 * wire.rank();
  wire.exchange(next, std::as_bytes(std::span(&mine, 1)), last,
                std::as_writable_bytes(std::span(&theirs, 1)), Tag{1});
  if (theirs != 10 * last) throw WireError("a neighbour's number is wrong");

  float sum = static_cast<float>(wire.rank() + 1);
  allreduce_sum(wire, {&sum, 1});
  if (sum != 6) throw WireError("the sum is wrong");
}

// Ends the program unless the call throws exactly what is expected: a shared library that hides
// the types of its errors would make every handler but catch (...) miss them.
template <class Expected, class Call>
Expected must_throw(const char* what, Call call) {
  try {
    call();
  } catch (const Expected& error) {
    return error;
  } catch (...) {
    std::cerr << what << ": an error of another type\n";
    std::exit(1);
  }
  std::cerr << what << ": no error\n";
  std::exit(1);
}

void check_errors(const JoinOptions& options) {
  must_throw<ConfigError>("a network of nonsense", [] { Network::parse("nonsense"); });
  must_throw<Error>("an unknown transport", [] { find_backend("pigeons"); });
  must_throw<TransportError>("a silent peer", [&] {
    run_workers("threads", options, [](Transport& wire) {
      if (wire.rank() != 0) return;
      wire.set_timeout(Seconds(0.05));
      std::byte one{};
      wire.recv(1, Tag{1}, {&one, 1});
    });
  });
  must_throw<WireError>("an error of a worker", [&] {
    run_workers("threads", options, [](Transport& wire) {
      if (wire.rank() == 2) throw WireError("on purpose");
    });
  });
}

}  // namespace

// Uses the clock, a task and an event of the process without a transport.
void check_runtime() {
  Runtime& runtime = system_runtime();
  const Seconds start = runtime.now();
  const std::unique_ptr<Event> event = runtime.make_event();
  const std::unique_ptr<Task> task = runtime.launch([&event] { event->notify(); });
  if (!event->wait(Seconds(60)) || runtime.now() < start) std::exit(1);
  task->join();
}

int main() {
  check_runtime();
  JoinOptions options;
  options.size = 3;
  check_errors(options);
  options.network = Network::parse("unlimited,10us");
  run_workers("threads", options, sum_over_ranks);

  std::cout << "transports:";
  for (const TransportBackend& backend : transport_backends()) std::cout << ' ' << backend.name;
  std::cout << '\n';
}
