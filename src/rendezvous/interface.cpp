#include "rendezvous/interface.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <vector>

#include "rendezvous/socket.h"
#include "thinwire/error.h"

namespace thinwire::rendezvous {
namespace {

struct LocalAddress {
  std::string interface;
  std::string address;
  bool ipv4;
};

// Returns the addresses of all interfaces that are up, IPv4 first.
std::vector<LocalAddress> local_addresses() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, freeifaddrs);
  std::vector<LocalAddress> found;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      found.push_back({entry->ifa_name, text, family == AF_INET});
    }
  }
  std::stable_partition(found.begin(), found.end(), [](const auto& a) { return a.ipv4; });
  return found;
}

ErrorFields joining(Remedy remedy) {
  ErrorFields fields;
  fields.operation = "join";
  fields.remedy = remedy;
  return fields;
}

// Returns the first address of the first interface in the list `wanted` that is up here.
LocalAddress find_interface(const std::string& wanted, const std::vector<LocalAddress>& here) {
  for (std::size_t begin = 0; begin <= wanted.size();) {
    const std::size_t end = std::min(wanted.find(',', begin), wanted.size());
    const std::string name = wanted.substr(begin, end - begin);
    for (const LocalAddress& a : here) {
      if (name == a.interface || name == a.address) return a;
    }
    begin = end + 1;
  }
  std::string known;
  for (const LocalAddress& a : here) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", a.interface, a.address);
  }
  throw ConfigError(
      fmt::format("interface '{}': not up on this machine; available: {}", wanted, known),
      joining(Remedy::choose_interface));
}

}  // namespace

std::string address_for_peers(const std::string& wanted, const std::string& master_host) {
  if (wanted.empty()) {
    try {
      return local_address_towards(master_host);
    } catch (const std::system_error& error) {
      ErrorFields fields = joining(Remedy::choose_master);
      fields.peer = 0;
      fields.host = master_host;
      throw TransportError(
          TransportError::Kind::join,
          fmt::format(
              "master '{}': no route to it ({}); check the address and that the network is up",
              master_host, error.what()),
          std::move(fields));
    }
  }
  return find_interface(wanted, local_addresses()).address;
}

void require_token(const JoinOptions& options, const std::string& host) {
  bool wildcard = false, loopback = false;
  try {
    wildcard = is_wildcard(host);
    loopback = is_loopback(host);
  } catch (const std::system_error&) {
    return;  // if the address cannot be resolved, joining fails later
  }
  if (wildcard) {
    throw ConfigError(
        fmt::format("master '{}': stands for all networks of a machine; name the one address of "
                    "rank 0 at which the other ranks reach it",
                    host),
        joining(Remedy::choose_master));
  }
  if (loopback || !options.token.empty()) return;
  throw ConfigError(
      fmt::format("master '{}': other machines can reach it, so the ranks need a token "
                  "to recognize each other",
                  host),
      joining(Remedy::share_token));
}

void require_interface(const JoinOptions& options, const std::string& address) {
  if (options.interface.empty() || is_loopback(address)) return;
  const std::vector<LocalAddress> here = local_addresses();
  const LocalAddress wanted = find_interface(options.interface, here);
  const bool belongs = std::ranges::any_of(here, [&](const LocalAddress& a) {
    return a.interface == wanted.interface && a.address == address;
  });
  if (belongs) return;
  throw ConfigError(
      fmt::format(
          "master '{}': its address {} is no address of the interface '{}'; give every rank "
          "an address of that interface on rank 0, such as {}:{}, or leave the interface out",
          options.master_host, address, options.interface, wanted.address, options.master_port),
      joining(Remedy::choose_master));
}

}  // namespace thinwire::rendezvous
