// The options of a call as the text of a JSON object.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/launch.h"
#include "thinwire/session.h"

namespace thinwire::c_api {

inline constexpr int kMostRanks = 1 << 20;

// Reads one object. Each accessor checks the value and records the key, so that reject_unknown()
// finds keys that nobody reads. All functions throw ConfigError, which names the key, its value and
// what is allowed.
class JsonOptions {
 public:
  // `object` is the word by which errors refer to the options, for example "group".
  JsonOptions(const char* text, std::string object);

  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t lowest,
                       std::int64_t highest);
  double number(const std::string& key, double fallback, double lowest, double highest);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  SgdConfig sgd();  // momentum, weight_decay, nesterov
  // Returns the value of a key that must be given, without a check.
  const nlohmann::json& required(const std::string& key);

  void reject_unknown() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const;

 private:
  const nlohmann::json* find(const std::string& key);

  std::string object_;
  nlohmann::json json_;
  std::vector<std::string> known_;
};

// thinwire_c.h lists the keys of both.
JoinOptions join_options(const char* text);
struct OpenOptions {
  SessionOptions session;
  Layout layout;
};
OpenOptions open_options(const char* text);

}  // namespace thinwire::c_api
