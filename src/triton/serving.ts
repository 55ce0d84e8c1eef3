/** How every server of ours runs: here, in the Dockerfile and in the cluster. Nothing else is loaded with it. */

/**
 * Explicit: models come and go when a publisher says so. One bad model must not take the others down, nor one that is
 * loading the server's readiness.
 */
export const SERVING_FLAGS = [
  '--model-control-mode=explicit',
  '--exit-on-error=false',
  '--strict-readiness=false',
] as const;

/** Loads at start what the repository holds; without it a restarted server serves nothing. */
export const LOAD_ALL_FLAG = '--load-model=*';

/** What models that share a few cores need. Measured: docs/decisions.md. */
export const CPU_VARIABLES = {
  // A thread that waits by spinning takes a core from one that works.
  OMP_WAIT_POLICY: 'PASSIVE',
  // Tensors of many megabytes come and go with each request: keep their memory instead of giving it back to the system
  // and getting it anew, page by page. Without this gfpgan takes more than twice as long on two cores.
  GLIBC_TUNABLES: 'glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184',
} as const;
