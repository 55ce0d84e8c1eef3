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

/** Environment variables for models that compute on a CPU, also beside a GPU, and for traces. Measurements: docs/decisions.md. */
export const CPU_VARIABLES = {
  // A spinning thread takes a core from a working thread.
  OMP_WAIT_POLICY: 'PASSIVE',
  // Each request allocates and frees tensors of many megabytes. Keep their memory instead of returning it to the system
  // and faulting it in again page by page. Without this gfpgan takes more than twice as long on two cores.
  GLIBC_TUNABLES: 'glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184',
} as const;
