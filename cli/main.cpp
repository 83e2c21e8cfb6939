#include "cli/command.h"

int main(int argc, char** argv) {
  thinwire::launch::Io io = thinwire::launch::process_io();
  thinwire::launch::end_on_interrupt(io);
  return thinwire::cli::run({argv + 1, argv + argc}, io);
}
