#include "c_api/json_options.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::c_api {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostCount = std::int64_t{1} << 53;  // every such number is exact in JSON
constexpr std::size_t kMostParameters = std::size_t{1} << 40;
constexpr double kMostSeconds = 1e6;
constexpr int kDeepest = 16;  // of nested JSON

// Returns the value as text that is short enough for a message.
std::string shown(const json& value) {
  constexpr std::size_t kMost = 40;
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

[[noreturn]] void refuse_tensor(std::size_t index, const std::string& problem) {
  throw ConfigError(
      fmt::format("session: tensor {}: {}; a tensor is {{\"name\": text, \"shape\": "
                  "[extents]}}",
                  index, problem));
}

TensorSlot tensor_of(const json& value, std::size_t index) {
  if (!value.is_object()) refuse_tensor(index, "not an object");
  const auto name = value.find("name"), shape = value.find("shape");
  if (name == value.end() || !name->is_string()) refuse_tensor(index, "no name");
  if (shape == value.end() || !shape->is_array()) refuse_tensor(index, "no shape");
  if (value.size() != 2) refuse_tensor(index, "unknown key");
  TensorSlot out;
  out.name = name->get<std::string>();
  std::size_t numel = 1;
  for (const json& extent : *shape) {
    if (!extent.is_number_unsigned()) refuse_tensor(index, "an extent is not a number");
    const auto length = extent.get<std::size_t>();
    if (__builtin_mul_overflow(numel, length, &numel) || numel > kMostParameters) {
      refuse_tensor(index, "too many elements");
    }
    out.shape.push_back(length);
  }
  return out;
}

Layout layout_of(const json& tensors) {
  if (!tensors.is_array()) throw ConfigError("session: tensors is not a list");
  Layout out;
  for (const json& value : tensors) {
    TensorSlot tensor = tensor_of(value, out.tensors.size());
    tensor.offset = out.numel;
    out.numel += tensor.numel();
    if (out.numel > kMostParameters) refuse_tensor(out.tensors.size(), "too many elements");
    out.tensors.push_back(std::move(tensor));
  }
  if (out.numel == 0) throw ConfigError("session: the model has no parameters");
  return out;
}

// A mistaken descriptor must not be taken over, because it would be closed with the group.
bool listens(int descriptor) {
  int accepts = 0;
  socklen_t length = sizeof accepts;
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) == 0 && accepts != 0;
}

}  // namespace

JsonOptions::JsonOptions(const char* text, std::string object) : object_(std::move(object)) {
  const auto limit_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) {
      throw ConfigError(fmt::format("{}: the options are nested too deeply", object_));
    }
    return true;
  };
  try {
    json_ = json::parse(text, limit_depth);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: the options are not JSON ({})", object_, error.what()));
  }
  if (!json_.is_object()) {
    throw ConfigError(
        fmt::format("{}: the options are not a JSON object ({})", object_, shown(json_)));
  }
}

const json* JsonOptions::find(const std::string& key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void JsonOptions::refuse(const std::string& key, const std::string& allowed) const {
  throw ConfigError(fmt::format("{}: invalid value of {} ({}); allowed: {}", object_, key,
                                shown(json_.value(key, json())), allowed));
}

std::int64_t JsonOptions::integer(const std::string& key, std::int64_t fallback,
                                  std::int64_t lowest, std::int64_t highest) {
  const json* const value = find(key);
  if (value == nullptr) return fallback;
  const bool whole = value->is_number_unsigned()
                         ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                         : value->is_number_integer();
  const std::int64_t out = whole ? value->get<std::int64_t>() : 0;
  if (!whole || out < lowest || out > highest) {
    refuse(key, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return out;
}

double JsonOptions::number(const std::string& key, double fallback, double lowest, double highest) {
  const json* const value = find(key);
  if (value == nullptr) return fallback;
  const double out = value->is_number() ? value->get<double>() : std::nan("");
  if (!(out >= lowest && out <= highest)) {
    refuse(key, fmt::format("a number from {} to {}", lowest, highest));
  }
  return out;
}

bool JsonOptions::boolean(const std::string& key, bool fallback) {
  const json* const value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse(key, "true, false");
  return value->get<bool>();
}

std::string JsonOptions::text(const std::string& key, const std::string& fallback) {
  const json* const value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) refuse(key, "text");
  return value->get<std::string>();
}

SgdConfig JsonOptions::sgd() {
  return {static_cast<float>(number("momentum", 0, 0, 1)),
          static_cast<float>(number("weight_decay", 0, 0, 1e6)), boolean("nesterov", false)};
}

const json& JsonOptions::required(const std::string& key) {
  const json* const value = find(key);
  if (value == nullptr) throw ConfigError(fmt::format("{}: {} is missing", object_, key));
  return *value;
}

void JsonOptions::reject_unknown() const {
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    throw ConfigError(base::unknown_key(object_, key, known_));
  }
}

JoinOptions join_options(const char* text) {
  JsonOptions read(text, "group");
  JoinOptions out;
  read.required("rank");
  read.required("size");
  out.size = static_cast<int>(read.integer("size", 1, 1, kMostRanks));
  out.rank = static_cast<int>(read.integer("rank", 0, 0, out.size - 1));
  out.master_host = read.text("master_host", out.master_host);
  out.master_port =
      static_cast<std::uint16_t>(read.integer("master_port", out.master_port, 1, UINT16_MAX));
  out.master_socket = static_cast<int>(read.integer("master_socket", -1, -1, INT32_MAX));
  if (out.master_socket >= 0 && out.rank != 0) {
    read.refuse("master_socket", "-1, except on rank 0");
  }
  if (out.master_socket >= 0 && !listens(out.master_socket)) {
    read.refuse("master_socket", "-1, or a socket that listens");
  }
  out.interface = read.text("interface", "");
  out.token = read.text("token", "");
  out.join_timeout =
      Seconds(read.number("join_timeout", out.join_timeout.count(), 1e-3, kMostSeconds));
  out.timeout = Seconds(read.number("timeout", out.timeout.count(), 1e-3, kMostSeconds));
  const std::string network = read.text("network", "");
  if (!network.empty()) out.network = Network::parse(network);
  read.reject_unknown();
  return out;
}

OpenOptions open_options(const char* text) {
  JsonOptions read(text, "session");
  OpenOptions out;
  SessionOptions& session = out.session;
  const auto count = [&](const char* key, std::int64_t fallback = 0) {
    return static_cast<std::uint64_t>(read.integer(key, fallback, 0, kMostCount));
  };
  out.layout = layout_of(read.required("tensors"));
  session.strategy = read.text("strategy", session.strategy);
  session.buckets = static_cast<std::size_t>(read.integer("buckets", 1, 1, 1 << 16));
  session.check_every = count("check_every");
  const std::string nonfinite = read.text("nonfinite", "skip");
  if (nonfinite != "skip" && nonfinite != "stop") read.refuse("nonfinite", "skip, stop");
  session.nonfinite = nonfinite == "skip" ? NonFinite::skip : NonFinite::stop;
  RunOptions& run = session.run;
  run.steps = count("steps");
  run.samples = count("samples");
  run.steps_per_epoch = read.number("steps_per_epoch", 0, 0, 1e15);
  run.warmup_steps = count("warmup_steps");
  run.seed = count("seed", 1);
  run.sgd = read.sgd();
  read.reject_unknown();
  return out;
}

}  // namespace thinwire::c_api
