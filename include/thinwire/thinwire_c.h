/* The C API of thinwire, for programs in C and for every language that can call C. It has no
 * exceptions, no callbacks and no types but numbers, text and handles; options and statistics are
 * JSON. docs/c-api.md explains it with an example.
 *
 * Results. Every function returns a tw_status: TW_OK is 0. After any other status but TW_PENDING,
 * tw_error_text() and tw_error_fields() describe what went wrong; they belong to the calling thread
 * and are valid until its next call. No argument makes a function crash: null pointers, closed
 * handles and calls out of order return TW_USAGE.
 *
 * Waiting. Functions that communicate only start an operation and return at once; a thread of the
 * library carries it out. tw_group_wait() and tw_session_wait() wait for it for a limited time, so
 * that the caller can handle signals meanwhile. The memory that an operation uses must stay valid
 * and unchanged until the wait has returned something else than TW_PENDING.
 *
 * Threads. Handles may be used from any thread, one thread at a time for each group and its
 * sessions. Three functions are excepted: any thread may call tw_group_abort(), tw_group_close()
 * and tw_group_log() at any time, also while another thread waits. An abort or a close by another
 * thread is the only way to end a wait without a time limit. Functions without a handle may be
 * called from any thread at any time.
 *
 * Processes. After fork() the child must not use the handles of its parent; calls return TW_USAGE.
 * It can join a group of its own only if the parent had no open group when it forked. A child that
 * does not call exec() should call tw_after_fork_in_child().
 *
 * Order of calls on every rank:
 *   tw_group_join, tw_group_wait, tw_session_open, [tw_session_load,] tw_session_begin,
 *   { tw_session_submit for each bucket, tw_session_wait, tw_session_finish_step } for each step,
 *   tw_session_end, tw_session_close, tw_group_leave, tw_group_wait, tw_group_close
 * with a tw_session_wait after each call that starts an operation. */
#ifndef THINWIRE_C_H
#define THINWIRE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_C_EXPORT __attribute__((visibility("default")))

/* Rises when a function or the meaning of a status changes or disappears. New functions, new JSON
 * keys and new statuses leave it: a program treats a status that it does not know as a failure. A
 * program compares it with tw_abi_version() before its first other call. */
#define TW_ABI_VERSION 1

typedef enum tw_status {
  TW_OK = 0,
  TW_PENDING = 1,  /* the operation is not complete yet; call the wait again */
  TW_USAGE = 2,    /* an invalid argument, a closed handle, or a call out of order */
  TW_CONFIG = 3,   /* options that are impossible or that differ between ranks */
  TW_WIRE = 4,     /* a message or a saved state that is damaged or of another version */
  TW_JOIN = 5,     /* the group never came together */
  TW_DEADLINE = 6, /* a peer was silent for longer than the timeout */
  TW_LOST = 7,     /* a peer died or failed */
  TW_FAILURE = 8,  /* the run failed by itself, for example because it diverged */
  TW_INTERNAL = 9  /* no memory, no thread, or a bug of thinwire */
} tw_status;

/* Handles are numbers that are never used twice; 0 is no handle. */
typedef uint64_t tw_group;
typedef uint64_t tw_session;

/* --- The library. */

/* Returns the TW_ABI_VERSION with which the library was built. Never fails; may be called before
 * all other functions. */
TW_C_EXPORT int tw_abi_version(void);
/* Returns the version of the library, for example "0.2.0". Never fails. The text is a constant of
 * the library: the caller must not free it, and it is valid as long as the library is loaded. */
TW_C_EXPORT const char* tw_version(void);
/* Return the text and the fields of the last error of this thread. The library owns both; they are
 * valid until the next call of this thread. The text is empty if there was no error. The fields are
 * a JSON object: those of docs/events.md, where "kind" is also "usage" (TW_USAGE) or "internal"
 * (TW_INTERNAL); {} if there was no error. */
TW_C_EXPORT const char* tw_error_text(void);
TW_C_EXPORT const char* tw_error_fields(void);
/* Called in a child after fork(), before it does anything else: closes the copies that it inherited
 * of the connections by which ranks notice that a rank is dead. Otherwise, if the parent is killed
 * while the child lives, the other ranks notice it only after the timeout. The connections over
 * which Gloo sends data stay open in the child, which delays nothing. Allocates no memory, takes no
 * lock, and calls only functions that are allowed in a signal handler. */
TW_C_EXPORT tw_status tw_after_fork_in_child(void);
/* Writes the version, the transports and the strategies with their keys as JSON.
 *
 * This and all functions below that have `out`, `capacity` and `needed` write at most `capacity`
 * bytes, and the length of the whole result to *needed. If it does not fit, they write nothing to
 * `out` and return TW_USAGE: call again with more room. Text ends with a 0 byte, which counts. */
TW_C_EXPORT tw_status tw_list(char* out, size_t capacity, size_t* needed);
/* Checks a strategy before any rank is started, and writes what a program must know about it.
 * Options: {"strategy": "gtopk:density=0.01", "size": 4, "momentum": 0.9, "weight_decay": 0,
 * "nesterov": false}. The result: "exchanges" ("gradients" or "models"), "sync_mode"
 * ("synchronous", "periodic" or "asynchronous"), "serving_ranks" (how many ranks, from 0 on, have
 * no gradients), and "momentum", "weight_decay" and "nesterov" as they are left to the caller's
 * optimizer. */
TW_C_EXPORT tw_status tw_strategy_info(const char* options, char* out, size_t capacity,
                                       size_t* needed);

/* --- The group of all ranks. */

/* Opens a socket that listens at `host`, at a port which the system chooses, so that no other
 * program can take the port before the ranks meet there. Rank 0 passes the descriptor as
 * "master_socket", all ranks pass the port as "master_port". A tw_group_join() that returns TW_OK
 * takes the descriptor over and closes it, also if joining fails later; otherwise the caller still
 * owns it. */
TW_C_EXPORT tw_status tw_listen(const char* host, uint16_t* port, int* descriptor);

/* Starts to join a group. Options, of which only rank and size are needed if all ranks run on this
 * machine:
 *   {"rank": 0, "size": 4, "master_host": "10.0.0.1", "master_port": 29500, "master_socket": -1,
 *    "interface": "", "token": "", "join_timeout": 30, "timeout": 60, "network": "100mbit,1ms"}
 * Times are in seconds. The token is a secret that all ranks know; other machines than this one
 * need it. "network" imitates a slower network between ranks of one machine. */
TW_C_EXPORT tw_status tw_group_join(const char* options, tw_group* out);
/* Waits until tw_group_join() or tw_group_leave() is complete, for at most `seconds`; for ever if
 * it is negative. */
TW_C_EXPORT tw_status tw_group_wait(tw_group group, double seconds);
/* Starts to leave the group: waits until all ranks have called it, so that nobody mistakes the end
 * for a failure. A rank may come much later than the others: they wait as long as its process
 * answers, and report TW_LOST only if it does not answer after the timeout. A program that does not
 * want to wait calls tw_group_close(). All sessions of the group must be closed. */
TW_C_EXPORT tw_status tw_group_leave(tw_group group);
/* Gives up: operations that are going on end with an error, on all ranks, and so do waits of other
 * threads. A join that is not complete ends at the latest after "join_timeout". `reason` is what
 * the other ranks report. May be called by any thread at any time, more than once. */
TW_C_EXPORT tw_status tw_group_abort(tw_group group, const char* reason);
/* Frees the group, and the sessions that are still open. If this rank has not left, it aborts. May
 * be called by any thread: if another one waits for the group or a session, that wait ends with an
 * error as after an abort, and the memory of the operation is not used after it. */
TW_C_EXPORT tw_status tw_group_close(tw_group group);
/* Takes the oldest log message: its level (0 debug, 1 info, 2 warning, 3 error) and its text. If
 * there is none, *level is -1 and the text is empty. The library keeps the newest 1000 messages.
 * May be called by any thread at any time. */
TW_C_EXPORT tw_status tw_group_log(tw_group group, int* level, char* out, size_t capacity,
                                   size_t* needed);

/* --- A session: one strategy that synchronizes one model. */

/* Makes a session. A group may have several: each has a thread and a stream of messages of its own,
 * so that their operations may go on at the same time, in another order on every rank. All ranks
 * must open the sessions of a group in the same order, and begin them in the same order, one at a
 * time: after a tw_session_begin(), the open and the begin of other sessions return TW_USAGE until
 * tw_session_wait() has returned its result. Options:
 *
 *   {"strategy": "gtopk:density=0.01",
 *    "tensors": [{"name": "conv.weight", "shape": [16, 3, 3, 3]}, ...],
 *    "buckets": 1, "nonfinite": "skip", "check_every": 0, "seed": 1,
 *    "steps": 0, "samples": 0, "steps_per_epoch": 0, "warmup_steps": 0,
 *    "momentum": 0, "weight_decay": 0, "nesterov": false}
 *
 * The tensors follow each other in the flat buffers without gaps. There are fewer buckets if there
 * are fewer tensors or if the strategy has select=global. 0 steps means unknown; automatic keys of
 * strategies depend on it. momentum and weight_decay are those of SGD: tw_strategy_info() says
 * which part of them is left to the caller's optimizer.
 *
 * A rank that only serves ("serves" of tw_session_info()) makes the same calls in the same order as
 * all others, with buffers of the same size. It passes gradients of 0, and 0 samples. */
TW_C_EXPORT tw_status tw_session_open(tw_group group, const char* options, tw_session* out);
/* Writes JSON: "parameters", "serves" (this rank has no gradients) and, after the begin, "buckets":
 * [{"begin": 0, "numel": 100}, ...]. */
TW_C_EXPORT tw_status tw_session_info(tw_session session, char* out, size_t capacity,
                                      size_t* needed);
/* Starts the run at `step`, 0 unless a state was loaded: copies the parameters of rank 0 to all
 * ranks. If a state was loaded and the session exchanges models, each rank keeps its own parameters
 * instead, which its checkpoint must have. `numel` is the number of parameters, here and below. */
TW_C_EXPORT tw_status tw_session_begin(tw_session session, float* params, size_t numel,
                                       uint64_t step);
/* Starts the exchange of one bucket, whose gradients are complete. Both buffers are those of the
 * whole model; `params` may be null if weight_decay is 0. All ranks submit all buckets in the same
 * order. A session that exchanges models has one bucket.
 *
 * The operation uses only the range of its bucket (tw_session_info()) in both buffers. So the
 * caller may compute the gradients of the other buckets meanwhile, until it has submitted the last
 * one. A submit that returns an error starts nothing, and the caller may correct it. */
TW_C_EXPORT tw_status tw_session_submit(tw_session session, size_t bucket, float* params,
                                        float* grads, size_t numel);
/* Waits until all that was started is complete: after submits, until all buckets are exchanged.
 * For at most `seconds`; for ever if it is negative. After the submits of a step *skipped is 1 if a
 * gradient was not finite on some rank, so that the step must not be applied; `skipped` may be
 * null. */
TW_C_EXPORT tw_status tw_session_wait(tw_session session, double seconds, int* skipped);
/* Ends a step after the optimizer has applied it. A session that exchanges models may change the
 * parameters; one that exchanges gradients needs them only if check_every is not 0. `samples` are
 * the examples that this worker used; learning_rate 0 means unknown. */
TW_C_EXPORT tw_status tw_session_finish_step(tw_session session, float* params, size_t numel,
                                             uint64_t samples, double learning_rate);
/* Ends the run; all ranks together. Afterwards all models are equal. */
TW_C_EXPORT tw_status tw_session_end(tw_session session, float* params, size_t numel);
/* Starts to wait until all messages in flight have arrived; all ranks together, before a save. */
TW_C_EXPORT tw_status tw_session_quiesce(tw_session session, float* params, size_t numel);
/* Writes the state of this rank, between two steps. Parameters and the caller's optimizer are not a
 * part of it. */
TW_C_EXPORT tw_status tw_session_save(tw_session session, void* out, size_t capacity,
                                      size_t* needed);
/* Restores a state that tw_session_save() wrote on this rank, in a session with the same options.
 * Called after the open and before the begin, on all ranks or on none: the begin compares them.
 * Does not communicate; the caller owns `state`, which is not used after the call. Returns TW_WIRE
 * if the bytes are not such a state; then another one can be loaded. */
TW_C_EXPORT tw_status tw_session_load(tw_session session, const void* state, size_t bytes);
/* Starts to sum the strategy's metrics over all ranks; all ranks together, between two steps.
 * tw_session_stats() then contains them. */
TW_C_EXPORT tw_status tw_session_sum_metrics(tw_session session);
/* Writes the statistics of this rank as JSON: steps, skipped_steps, bytes_sent, bytes_received
 * (these two of all sessions of the group), codec_seconds, wire_seconds and wait_seconds,
 * residual_ratio (L2 norm of the residual divided by that of the gradient), consensus_distance
 * (strategies that exchange models: how far the models were from their mean before tw_session_end()
 * made them equal), global_samples (asynchronous strategies), step_scale (after the exchange of a
 * step: by what the caller's optimizer multiplies its learning rate in this step; not 1 only if
 * models are exchanged), and the metrics of the last tw_session_sum_metrics(). */
TW_C_EXPORT tw_status tw_session_stats(tw_session session, char* out, size_t capacity,
                                       size_t* needed);
/* Frees the session. An operation that is going on is completed first, or ends with the group. */
TW_C_EXPORT tw_status tw_session_close(tw_session session);

#ifdef __cplusplus
}
#endif

#endif
