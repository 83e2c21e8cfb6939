#include "cli/hint.h"

#include <fmt/format.h>

namespace thinwire::cli {
namespace {

std::string raise_timeout(const ErrorFields& fields) {
  if (fields.peer == kNoRank) return "raise --timeout if the peers are alive but slow";
  return fmt::format("raise --timeout if rank {} is alive but slow", fields.peer);
}

}  // namespace

std::string hint(const ErrorFields& fields) {
  switch (fields.remedy) {
    case Remedy::none:
    case Remedy::match_options:
      return "";
    case Remedy::raise_timeout:
      return raise_timeout(fields);
    case Remedy::raise_join_timeout:
      return "raise --join-timeout if ranks start that late";
    case Remedy::choose_master:
      return "set it by --master HOST:PORT, or MASTER_ADDR and MASTER_PORT, the same on every rank";
    case Remedy::choose_interface:
      return "name another by --interface or GLOO_SOCKET_IFNAME, or leave it out to use the one "
             "that routes to the master";
    case Remedy::share_token:
      return "make a token by `(umask 077; openssl rand -hex 32 > token)`, copy it to every "
             "machine, and give every rank the same --token-file token, or THINWIRE_TOKEN";
    case Remedy::choose_transport:
      return "or use --transport gloo";
    case Remedy::let_launcher_number:
      return "leave out --workers and --rank under an MPI launcher";
    case Remedy::drop_network:
      return "leave out --network";
    case Remedy::free_disk_space:
      return "make room; `train --resume`, or the same `compare`, goes on from the last checkpoint";
    case Remedy::tolerate_nonfinite:
      return "--nonfinite skip leaves such steps out";
  }
  return "";
}

std::string with_hint(const Error& error) {
  const std::string advice = hint(error.fields());
  return advice.empty() ? std::string(error.what()) : fmt::format("{}; {}", error.what(), advice);
}

}  // namespace thinwire::cli
