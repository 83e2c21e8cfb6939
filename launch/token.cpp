#include "launch/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>
#include <system_error>

#include "base/unique_fd.h"
#include "thinwire/error.h"

namespace thinwire::launch {
namespace {

constexpr std::size_t kShortest = 16;
constexpr std::size_t kLongest = 4096;
// Fewer than 8 different characters among 32 random hexadecimal digits occur once in 28 million
// tokens, among 64 digits practically never.
constexpr std::size_t kFewestDistinct = 8;
constexpr std::string_view kHowTo = "make one with `(umask 077; openssl rand -hex 32 > token)`";

[[noreturn]] void refuse(std::string_view file, std::string_view reason) {
  throw ConfigError(fmt::format("--token-file {}: {}", file, reason));
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

std::string checked(std::string_view text, std::string_view source) {
  std::string token = trimmed(text);
  const std::size_t distinct = std::set<char>(token.begin(), token.end()).size();
  if (token.size() >= kShortest && distinct < kFewestDistinct) {
    throw ConfigError(
        fmt::format("{}: a token of {} different characters is easily guessed, at least {} are "
                    "needed; {}",
                    source, distinct, kFewestDistinct, kHowTo));
  }
  if (token.size() >= kShortest) return token;
  throw ConfigError(
      fmt::format("{}: a token of {} characters is easily guessed, at least {} are "
                  "needed; {}",
                  source, token.size(), kShortest, kHowTo));
}

// O_NONBLOCK, so that a pipe that nobody writes to is refused instead of waited for.
std::string read_private(const std::string& file) {
  const base::UniqueFd in(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto failed = [&] { refuse(file, std::generic_category().message(errno)); };
  struct stat status {};
  if (!in || fstat(in.get(), &status) != 0) failed();
  if (!S_ISREG(status.st_mode)) refuse(file, "not a file");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(file, fmt::format("other users can read the token (mode {:03o}); run `chmod 600 {}`",
                             status.st_mode & 0777u, file));
  }
  std::string text(kLongest + 1, '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t got = read(in.get(), text.data() + used, text.size() - used);
    if (got < 0) failed();
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  if (used > kLongest) refuse(file, fmt::format("longer than {} bytes", kLongest));
  text.resize(used);
  return text;
}

}  // namespace

std::string find_token(const std::string& file, const Environment& env) {
  if (!file.empty()) return checked(read_private(file), "--token-file " + file);
  const auto text = env(kTokenVariable);
  return text ? checked(*text, kTokenVariable) : std::string();
}

std::string fresh_token() {
  std::array<unsigned char, 32> random;
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  std::string out;
  for (const unsigned char byte : random) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace thinwire::launch
