// The messages of both sides of a rendezvous, for fuzz targets.
#pragma once

#include <string_view>

#include "rendezvous/socket.h"

namespace thinwire::fuzz {

inline constexpr std::string_view kToken = "the token of the fuzz targets";
inline constexpr Seconds kPatience{10};

// Sends the correct messages of a rank of a group of 2, from the hello to the proof.
void introduce(const rendezvous::Socket& client, std::uint32_t rank = 1);
// Sends the correct messages of rank 0: waits for the hello and answers it.
void challenge(const rendezvous::Socket& rank);

// Sends as many bytes as the other side accepts.
void send_all(const rendezvous::Socket& socket, Bytes bytes);
void end_of_sending(const rendezvous::Socket& socket);
// Returns false if the other side does not close the connection. In that case the connection is
// reset, because otherwise the ports would run out.
bool read_to_end(const rendezvous::Socket& socket);

}  // namespace thinwire::fuzz
