#include "cli/command.h"

int main(int argc, char** argv) {
  thinwire::cli::Io io = thinwire::cli::process_io();
  thinwire::cli::end_on_interrupt(io);
  return thinwire::cli::run({argv + 1, argv + argc}, io);
}
