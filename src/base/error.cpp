#include "thinwire/error.h"

#include <utility>

namespace thinwire {
namespace {

ErrorFields about_peer(int peer) {
  ErrorFields fields;
  fields.peer = peer;
  return fields;
}

ErrorFields with_kind(ErrorFields fields, ErrorKind kind) {
  fields.kind = kind;
  return fields;
}

}  // namespace

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::failure:
      return "failure";
    case ErrorKind::config:
      return "config";
    case ErrorKind::wire:
      return "wire";
    case ErrorKind::join:
      return "join";
    case ErrorKind::deadline:
      return "deadline";
    case ErrorKind::lost:
      return "lost";
  }
  return "unknown";
}

std::string_view to_string(Remedy remedy) noexcept {
  switch (remedy) {
    case Remedy::none:
      return "none";
    case Remedy::raise_timeout:
      return "raise_timeout";
    case Remedy::raise_join_timeout:
      return "raise_join_timeout";
    case Remedy::choose_master:
      return "choose_master";
    case Remedy::choose_interface:
      return "choose_interface";
    case Remedy::share_token:
      return "share_token";
    case Remedy::choose_transport:
      return "choose_transport";
    case Remedy::let_launcher_number:
      return "let_launcher_number";
    case Remedy::drop_network:
      return "drop_network";
    case Remedy::match_options:
      return "match_options";
    case Remedy::free_disk_space:
      return "free_disk_space";
    case Remedy::tolerate_nonfinite:
      return "tolerate_nonfinite";
  }
  return "unknown";
}

Error::Error(const std::string& text, ErrorFields fields)
    : std::runtime_error(text), fields_(std::make_shared<const ErrorFields>(std::move(fields))) {}

Error::Error(ErrorKind kind, const std::string& text, ErrorFields fields)
    : Error(text, with_kind(std::move(fields), kind)) {}

ConfigError::ConfigError(const std::string& text, ErrorFields fields)
    : Error(ErrorKind::config, text, std::move(fields)) {}

WireError::WireError(const std::string& text, ErrorFields fields)
    : Error(ErrorKind::wire, text, std::move(fields)) {}

TransportError::TransportError(Kind kind, const std::string& text, ErrorFields fields)
    : Error(kind, text, std::move(fields)) {}

TransportError::TransportError(Kind kind, int peer, const std::string& text)
    : Error(kind, text, about_peer(peer)) {}

}  // namespace thinwire
