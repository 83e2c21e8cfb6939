#include "launch/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "launch/launcher.h"
#include "thinwire/transport.h"

namespace thinwire::launch {
namespace {

constexpr double kRewriteSeconds = 0.1;

extern "C" void interrupted(int) {
  constexpr std::string_view kText = "\nthinwire: interrupted\n";
  // Nothing can be done about a failing write here.
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(kInterrupted);
  _exit(kInterrupted);
}

}  // namespace

Io process_io() {
  const Environment env = process_environment();
  // A worker of our launcher writes to a pipe; the stderr of the launcher decides.
  const auto launcher = env(kLauncherVariable);
  const bool live = launcher ? *launcher == kLauncherOnTerminal : isatty(STDERR_FILENO) == 1;
  // Open MPI gives its processes a pseudo-terminal, wherever mpirun itself writes to.
  const bool color = !env("NO_COLOR").has_value() && !env("OMPI_COMM_WORLD_RANK").has_value();
  return {std::cout,
          std::cerr,
          env,
          live,
          color && isatty(STDOUT_FILENO) == 1,
          color && isatty(STDERR_FILENO) == 1};
}

void print_error(Io& io, std::string_view text) {
  const std::string_view red = io.color_err ? "\033[31m" : "";
  const std::string_view plain = io.color_err ? "\033[0m" : "";
  // One write, because lines of other ranks may come between several writes to a pipe.
  io.err << fmt::format("{}{}{}{}{}\n", io.live ? kEraseLine : "", red, kErrorPrefix, text, plain)
         << std::flush;
}

void print_warning(Io& io, std::string_view text) {
  print_error(io, fmt::format("{}{}", kWarningPrefix.substr(kErrorPrefix.size()), text));
}

void print_note(Io& io, std::string_view text) {
  io.err << fmt::format("{}{}{}\n", io.live ? kEraseLine : "", kErrorPrefix, text) << std::flush;
}

std::string bold(const Io& io, std::string_view text) {
  return io.bold_out ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

void Progress::stage(std::string_view text) {
  if (io_.live) {
    rewrite(text);
  } else {
    io_.err << text << '\n' << std::flush;
  }
}

void Progress::detail(std::string_view text) {
  const double now = system_runtime().now().count();
  if (!io_.live || now - last_ < kRewriteSeconds) return;
  rewrite(text);
  last_ = now;
}

void Progress::rewrite(std::string_view text) {
  io_.err << kEraseLine << text << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) io_.err << kEraseLine << std::flush;
  shown_ = false;
}

void end_on_interrupt(const Io& io) {
  if (io.env(kLauncherVariable)) return;
  struct sigaction action {};
  action.sa_handler = interrupted;
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace thinwire::launch
