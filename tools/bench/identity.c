/* A Triton backend that answers each request with its inputs, so that benchmarks measure clients and servers and no
 * model. Triton looks for it in the folder of the model, as libtriton_identity.so.
 *
 * Declares the used part of tritonbackend.h (API 1.x), because no package registry contains this header. */
#include <stddef.h>
#include <stdint.h>

typedef struct Error Error;
typedef struct Instance Instance;
typedef struct Request Request;
typedef struct Response Response;
typedef struct Input Input;
typedef struct Output Output;
enum { MEMORY_CPU = 0, RESPONSE_FINAL = 1, RELEASE_ALL = 1 };

extern Error *TRITONBACKEND_RequestInputCount(Request *, uint32_t *count);
extern Error *TRITONBACKEND_RequestInputByIndex(Request *, uint32_t index, Input **);
extern Error *TRITONBACKEND_RequestRelease(Request *, uint32_t flags);
extern Error *TRITONBACKEND_InputProperties(Input *, const char **name, int32_t *datatype, const int64_t **shape,
                                            uint32_t *dims, uint64_t *bytes, uint32_t *buffers);
extern Error *TRITONBACKEND_InputBuffer(Input *, uint32_t index, const void **, uint64_t *bytes, int32_t *memory,
                                        int64_t *memory_id);
extern Error *TRITONBACKEND_ResponseNew(Response **, Request *);
extern Error *TRITONBACKEND_ResponseOutput(Response *, Output **, const char *name, int32_t datatype,
                                           const int64_t *shape, uint32_t dims);
extern Error *TRITONBACKEND_OutputBuffer(Output *, void **, uint64_t bytes, int32_t *memory, int64_t *memory_id);
extern Error *TRITONBACKEND_ResponseSend(Response *, uint32_t flags, Error *);
extern void *memcpy(void *, const void *, size_t);

static Error *copy(Input *input, Response *response) {
  const char *name;
  const int64_t *shape;
  int32_t datatype, memory = MEMORY_CPU;
  uint32_t dims, buffers;
  uint64_t bytes;
  int64_t memory_id = 0;
  Output *output;
  char *target;
  Error *error = TRITONBACKEND_InputProperties(input, &name, &datatype, &shape, &dims, &bytes, &buffers);
  if (!error) error = TRITONBACKEND_ResponseOutput(response, &output, name, datatype, shape, dims);
  if (!error) error = TRITONBACKEND_OutputBuffer(output, (void **)&target, bytes, &memory, &memory_id);
  for (uint32_t i = 0; !error && i < buffers; i++) {
    const void *source;
    uint64_t size;
    error = TRITONBACKEND_InputBuffer(input, i, &source, &size, &memory, &memory_id);
    if (!error) memcpy(target, source, size), target += size;
  }
  return error;
}

__attribute__((visibility("default"))) Error *TRITONBACKEND_ModelInstanceExecute(Instance *instance,
                                                                                 Request **requests, uint32_t count) {
  (void)instance;
  for (uint32_t r = 0; r < count; r++) {
    Response *response;
    uint32_t inputs = 0;
    Error *error = TRITONBACKEND_ResponseNew(&response, requests[r]);
    if (error) return error;
    error = TRITONBACKEND_RequestInputCount(requests[r], &inputs);
    for (uint32_t i = 0; !error && i < inputs; i++) {
      Input *input;
      error = TRITONBACKEND_RequestInputByIndex(requests[r], i, &input);
      if (!error) error = copy(input, response);
    }
    TRITONBACKEND_ResponseSend(response, RESPONSE_FINAL, error);
    TRITONBACKEND_RequestRelease(requests[r], RELEASE_ALL);
  }
  return NULL;
}
