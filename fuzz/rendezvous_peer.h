// Both sides of a rendezvous, played by a fuzz target.
#pragma once

#include <string_view>

#include "rendezvous/socket.h"

namespace thinwire::fuzz {

inline constexpr std::string_view kToken = "the token of the fuzz targets";
inline constexpr Seconds kPatience{10};

// As that rank of 2, by the book: from the hello to the proof.
void introduce(const rendezvous::Socket& guest, std::uint32_t rank = 1);
// As rank 0, by the book: waits for the hello and answers it.
void challenge(const rendezvous::Socket& rank);

// As much as the other side takes.
void send_all(const rendezvous::Socket& socket, Bytes bytes);
void end_of_sending(const rendezvous::Socket& socket);
// False if the other side does not end the connection. Then it is reset, or ports would run out.
bool read_to_end(const rendezvous::Socket& socket);

}  // namespace thinwire::fuzz
