// The functions of thinwire_c.h: each checks its arguments, calls an object and turns exceptions
// into a status.
#include "thinwire/thinwire_c.h"

#include <fmt/format.h>

#include <cstring>
#include <system_error>

#include "c_api/bound_session.h"
#include "c_api/fork.h"
#include "c_api/handles.h"
#include "c_api/last_error.h"
#include "c_api/strategy_info.h"
#include "rendezvous/socket.h"
#include "thinwire/version.h"

namespace {

using namespace thinwire;
using namespace thinwire::c_api;

// Never destroyed: threads of the caller may still use them while the process exits.
Handles<Group>& groups() {
  static auto& handles = *new Handles<Group>("group");
  return handles;
}
Handles<BoundSession>& sessions() {
  static auto& handles = *new Handles<BoundSession>("session");
  return handles;
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw UsageError(fmt::format("argument {}: it is null", name));
}

// Returns the floats, or no floats if the pointer is null.
MutFloats floats(float* values, std::size_t count) {
  if (values == nullptr) return {};
  return {values, count};
}

tw_status write_bytes(Bytes bytes, void* out, std::size_t capacity, std::size_t* needed) {
  require(needed, "needed");
  *needed = bytes.size();
  if (bytes.size() > capacity || (out == nullptr && !bytes.empty())) {
    throw UsageError(
        fmt::format("argument out: too small ({} bytes; {} needed)", capacity, bytes.size()));
  }
  if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
  return TW_OK;
}

tw_status write_text(const std::string& text, char* out, std::size_t capacity,
                     std::size_t* needed) {
  return write_bytes(std::as_bytes(std::span(text.c_str(), text.size() + 1)), out, capacity,
                     needed);
}

tw_status write_json(const nlohmann::json& json, char* out, std::size_t capacity,
                     std::size_t* needed) {
  return write_text(json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), out,
                    capacity, needed);
}

}  // namespace

int tw_abi_version(void) { return TW_ABI_VERSION; }
const char* tw_version(void) { return THINWIRE_VERSION; }
const char* tw_error_text(void) { return last_error_text(); }
const char* tw_error_fields(void) { return last_error_fields(); }

// Allocates nothing in a forked child.
tw_status tw_after_fork_in_child(void) {
  if (owns_groups()) {
    return remember_usage(
        "thinwire: tw_after_fork_in_child() is called, but not in a forked child");
  }
  close_group_connections();
  return TW_OK;
}

tw_status tw_list(char* out, size_t capacity, size_t* needed) {
  return guarded([&] { return write_json(library_listing(), out, capacity, needed); });
}

tw_status tw_strategy_info(const char* options, char* out, size_t capacity, size_t* needed) {
  return guarded([&] {
    require(options, "options");
    return write_json(strategy_info(options), out, capacity, needed);
  });
}

tw_status tw_listen(const char* host, uint16_t* port, int* descriptor) {
  return guarded([&] {
    require(host, "host");
    require(port, "port");
    require(descriptor, "descriptor");
    try {
      rendezvous::Socket socket = rendezvous::listen_at(host, 0);
      *port = rendezvous::port_of(socket);
      *descriptor = socket.release();
    } catch (const std::system_error& error) {
      throw ConfigError(fmt::format("host {}: cannot listen there ({})", host, error.what()));
    }
    return TW_OK;
  });
}

tw_status tw_group_join(const char* options, tw_group* out) {
  return guarded([&] {
    require(options, "options");
    require(out, "out");
    groups().require_may_add();
    *out = groups().add(std::make_shared<Group>(join_options(options)));
    return TW_OK;
  });
}

tw_status tw_group_wait(tw_group group, double seconds) {
  return guarded([&] { return groups().find(group)->wait(seconds) ? TW_OK : TW_PENDING; });
}

tw_status tw_group_leave(tw_group group) {
  return guarded([&] {
    groups().find(group)->leave();
    return TW_OK;
  });
}

tw_status tw_group_abort(tw_group group, const char* reason) {
  return guarded([&] {
    require(reason, "reason");
    groups().find(group)->abort(reason);
    return TW_OK;
  });
}

tw_status tw_group_close(tw_group group) {
  return guarded([&] {
    const std::shared_ptr<Group> closed = groups().take(group);
    auto open =
        sessions().take_if([&](const BoundSession& session) { return session.group() == closed; });
    // Another thread may wait for the group or a session; then that thread destroys it.
    closed->abort(open.empty() ? "the program closed the group without leaving it"
                               : "the program closed the group with an open session");
    open.clear();
    return TW_OK;
  });
}

tw_status tw_group_log(tw_group group, int* level, char* out, size_t capacity, size_t* needed) {
  return guarded([&] {
    require(level, "level");
    groups().find(group)->log().take_oldest([&](const LogMessages::Message* message) {
      write_text(message != nullptr ? message->text : std::string(), out, capacity, needed);
      *level = message != nullptr ? static_cast<int>(message->level) : -1;
    });
    return TW_OK;
  });
}

tw_status tw_session_open(tw_group group, const char* options, tw_session* out) {
  return guarded([&] {
    require(options, "options");
    require(out, "out");
    const auto owner = groups().find(group);
    *out = sessions().add(std::make_shared<BoundSession>(owner, open_options(options)));
    return TW_OK;
  });
}

tw_status tw_session_info(tw_session session, char* out, size_t capacity, size_t* needed) {
  return guarded(
      [&] { return write_json(sessions().find(session)->info(), out, capacity, needed); });
}

tw_status tw_session_begin(tw_session session, float* params, size_t numel, uint64_t step) {
  return guarded([&] {
    sessions().find(session)->begin(floats(params, numel), step);
    return TW_OK;
  });
}

tw_status tw_session_submit(tw_session session, size_t bucket, float* params, float* grads,
                            size_t numel) {
  return guarded([&] {
    sessions().find(session)->submit(bucket, floats(params, numel), floats(grads, numel));
    return TW_OK;
  });
}

tw_status tw_session_wait(tw_session session, double seconds, int* skipped) {
  return guarded([&] {
    bool skip = false;
    if (!sessions().find(session)->wait(seconds, skip)) return TW_PENDING;
    if (skipped != nullptr) *skipped = skip ? 1 : 0;
    return TW_OK;
  });
}

tw_status tw_session_finish_step(tw_session session, float* params, size_t numel, uint64_t samples,
                                 double learning_rate) {
  return guarded([&] {
    sessions().find(session)->finish_step(floats(params, numel), {samples, learning_rate});
    return TW_OK;
  });
}

tw_status tw_session_end(tw_session session, float* params, size_t numel) {
  return guarded([&] {
    sessions().find(session)->end(floats(params, numel));
    return TW_OK;
  });
}

tw_status tw_session_quiesce(tw_session session, float* params, size_t numel) {
  return guarded([&] {
    sessions().find(session)->quiesce(floats(params, numel));
    return TW_OK;
  });
}

tw_status tw_session_save(tw_session session, void* out, size_t capacity, size_t* needed) {
  return guarded(
      [&] { return write_bytes(sessions().find(session)->save(), out, capacity, needed); });
}

tw_status tw_session_load(tw_session session, const void* state, size_t bytes) {
  return guarded([&] {
    const auto object = sessions().find(session);
    require(state, "state");
    object->load({static_cast<const std::byte*>(state), bytes});
    return TW_OK;
  });
}

tw_status tw_session_sum_metrics(tw_session session) {
  return guarded([&] {
    sessions().find(session)->sum_metrics();
    return TW_OK;
  });
}

tw_status tw_session_stats(tw_session session, char* out, size_t capacity, size_t* needed) {
  return guarded(
      [&] { return write_json(sessions().find(session)->stats(), out, capacity, needed); });
}

tw_status tw_session_close(tw_session session) {
  return guarded([&] {
    sessions().take(session);
    return TW_OK;
  });
}
