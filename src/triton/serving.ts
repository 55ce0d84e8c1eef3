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
 * If the Content-Type is curl's default, Triton's HTTP library puts two arrays of the body's length on the stack of a
 * thread, and the server ends if they do not fit. Unwritten pages of a stack take no memory (docs/decisions.md).
 */
export const RAISE_STACK_LIMIT =
  'read -r _ kib _ </proc/meminfo; stack=$((kib * 3 / 4)); test "$stack" -lt 16777216 || stack=16777216; ' +
  'ulimit -S -s "$stack" || { ulimit -S -s "$(ulimit -H -s)"; ' +
  'echo "The stack limit is only $(ulimit -s) KiB, not $stack, so a large HTTP form can end Triton: raise the hard limit, in Docker with --ulimit stack=-1" >&2; }; ';

/** Environment variables for models that compute on a CPU, also beside a GPU, and for traces. Measurements: docs/decisions.md. */
export const CPU_VARIABLES = {
  // A spinning thread takes a core from a working thread.
  OMP_WAIT_POLICY: 'PASSIVE',
  // Each request allocates and frees tensors of many megabytes. Keep their memory instead of returning it to the system
  // and faulting it in again page by page. Without this gfpgan takes more than twice as long on two cores.
  GLIBC_TUNABLES: 'glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184',
} as const;
