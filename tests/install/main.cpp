// Sums a number over three ranks in threads, and names the engines it was given.
#include <thinwire/collective.h>
#include <thinwire/launch.h>

#include <iostream>

int main() {
  using namespace thinwire;
  JoinOptions options;
  options.size = 3;
  options.network = Network::parse("unlimited,10us");
  run_workers("threads", options, [](Transport& wire) {
    const int next = (wire.rank() + 1) % 3, last = (wire.rank() + 2) % 3;
    int theirs = -1;
    const int mine = 10 * wire.rank();
    wire.exchange(next, std::as_bytes(std::span(&mine, 1)), last,
                  std::as_writable_bytes(std::span(&theirs, 1)), Tag{1});
    if (theirs != 10 * last) throw WireError("a neighbour's number is wrong");

    float sum = static_cast<float>(wire.rank() + 1);
    allreduce_sum(wire, {&sum, 1});
    if (sum != 6) throw WireError("the sum is wrong");
  });
  std::cout << "engines:";
  for (const TransportBackend& engine : transport_backends()) std::cout << ' ' << engine.name;
  std::cout << '\n';
}
