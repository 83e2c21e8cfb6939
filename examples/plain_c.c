/* Trains a model in plain C on several processes, which exchange only the largest entries of their
 * gradients (topk).
 *
 *   plain_c RANK SIZE [PORT]    one of SIZE processes of this machine: start all of them
 *
 * The model is linear: it learns the weights of a sum of inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <thinwire/thinwire_c.h>

enum { kInputs = 1000, kSteps = 600, kBatch = 16 };

/* Ends the program if a call failed. The status says what kind of failure it was. */
static void check(tw_status status, const char* call) {
  if (status == TW_OK) return;
  fprintf(stderr, "plain_c: %s: %s\n%s\n", call, tw_error_text(), tw_error_fields());
  exit(1);
}
#define CHECK(call) check(call, #call)

/* Waits without a time limit. A program that handles signals waits in short turns instead. */
static int wait_for(tw_session session) {
  int skipped = 0;
  CHECK(tw_session_wait(session, -1, &skipped));
  return skipped;
}

static float uniform(unsigned* state) { /* from -1 to 1 */
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* Writes the mean gradient of the squared error of some examples, and returns the error. */
static float backward(const float* weights, const float* wanted, float* grads, unsigned* random) {
  float inputs[kInputs], error = 0;
  for (int i = 0; i < kInputs; ++i) grads[i] = 0;
  for (int example = 0; example < kBatch; ++example) {
    float difference = 0;
    for (int i = 0; i < kInputs; ++i) {
      inputs[i] = uniform(random);
      difference += inputs[i] * (weights[i] - wanted[i]);
    }
    for (int i = 0; i < kInputs; ++i) grads[i] += difference * inputs[i] / kBatch;
    error += difference * difference / kBatch;
  }
  return error;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: plain_c RANK SIZE [PORT]\n");
    return 2;
  }
  if (tw_abi_version() != TW_ABI_VERSION) {
    fprintf(stderr, "plain_c: the library has ABI version %d\n", tw_abi_version());
    return 2;
  }
  const int rank = atoi(argv[1]);
  char options[200];
  snprintf(options, sizeof options, "{\"rank\": %d, \"size\": %d, \"master_port\": %d}", rank,
           atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 29500);
  tw_group group;
  CHECK(tw_group_join(options, &group));
  CHECK(tw_group_wait(group, -1));

  snprintf(options, sizeof options,
           "{\"strategy\": \"topk:density=0.1\", \"steps\": %d, \"momentum\": 0.5, \"tensors\": "
           "[{\"name\": \"weights\", \"shape\": [%d]}]}",
           kSteps, kInputs);
  tw_session session;
  CHECK(tw_session_open(group, options, &session));

  float weights[kInputs] = {0}, wanted[kInputs], grads[kInputs], error = 0;
  unsigned same = 1, random = 1000u + (unsigned)rank; /* every rank has its own examples */
  for (int i = 0; i < kInputs; ++i) wanted[i] = uniform(&same);

  CHECK(tw_session_begin(session, weights, kInputs, 0));
  wait_for(session);
  for (int step = 0; step < kSteps; ++step) {
    const float now = backward(weights, wanted, grads, &random);
    error = step == 0 ? now : 0.95f * error + 0.05f * now;
    CHECK(tw_session_submit(session, 0, NULL, grads, kInputs));
    if (!wait_for(session)) { /* topk applies momentum itself: what is left is the rate */
      for (int i = 0; i < kInputs; ++i) weights[i] -= 0.01f * grads[i];
    }
    CHECK(tw_session_finish_step(session, NULL, 0, kBatch, 0.01));
    wait_for(session);
  }
  CHECK(tw_session_end(session, weights, kInputs));
  wait_for(session);

  char stats[2000];
  size_t needed = 0;
  CHECK(tw_session_stats(session, stats, sizeof stats, &needed));
  CHECK(tw_session_close(session));
  CHECK(tw_group_leave(group));
  CHECK(tw_group_wait(group, -1));
  CHECK(tw_group_close(group));
  if (rank == 0) printf("squared error %.3g\n%s\n", error, stats);
  return error < 1 ? 0 : 1;
}
