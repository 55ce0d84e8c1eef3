/**
 * Settings shared by every Triton server of this project: local, in the Dockerfile and in the cluster. This file
 * imports nothing.
 */

/**
 * Explicit model control, because publishers decide when models are loaded and unloaded. A model that fails to load
 * must not end the server, and a model that is loading must not make the server unready.
 */
export const SERVING_FLAGS = [
  '--model-control-mode=explicit',
  '--exit-on-error=false',
  '--strict-readiness=false',
] as const;

/** Loads all models of the repository at start. Without it a restarted server serves no models. */
export const LOAD_ALL_FLAG = '--load-model=*';

/**
 * Shell text before the start of tritonserver: lets threads have stacks of 3/4 of the machine's memory, at most 16 GiB.
 * Triton's HTTP library puts two arrays of a body's length on the stack of a thread if the Content-Type is curl's default,
 * and ends the server if they do not fit. Pages of a stack that are not written take no memory (docs/decisions.md).
 */
export const RAISE_STACK_LIMIT =
  'read -r _ kib _ </proc/meminfo; stack=$((kib * 3 / 4)); [ "$stack" -lt 16777216 ] || stack=16777216; ' +
  'ulimit -S -s "$stack" || { echo "Cannot raise the stack limit (ulimit -s) to $stack KiB because the hard limit is ' +
  '$(ulimit -H -s). An HTTP body with Content-Type application/x-www-form-urlencoded of more than half of the limit ends ' +
  'tritonserver. Raise the hard limit." >&2; ulimit -S -s "$(ulimit -H -s)"; }; ';

/** Environment variables for models that compute on a CPU, also beside a GPU. Measurements: docs/decisions.md. */
export const CPU_VARIABLES = {
  // A spinning thread takes a core from a working thread.
  OMP_WAIT_POLICY: 'PASSIVE',
  // Each request allocates and frees tensors of many megabytes. Keep their memory instead of returning it to the system
  // and faulting it in again page by page. Without this gfpgan takes more than twice as long on two cores.
  GLIBC_TUNABLES: 'glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184',
} as const;
