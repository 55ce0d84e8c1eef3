import type { GpuNodePoolSettings } from '../settings/types';
import { getComputeCapability } from './gpu-instance-types';

/**
 * CUDA of NVIDIA's images of Triton, oldest release first. Renovate proposes a newer release in the Dockerfile, and a test
 * then requires its row. Each row is from the release notes of its release, section "Driver Requirements", for 26.10
 * https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-26-10.html (2026-11-27).
 */
const RELEASES: readonly (readonly [release: string, cuda: string])[] = [
  ['24.10', '12.6.2'],
  ['25.03', '12.8.1'],
  ['25.06', '12.9.1'],
  ['25.08', '13.0.0'],
  ['25.10', '13.0.2'],
  ['26.02', '13.1.1'],
  ['26.04', '13.2.1'],
  ['26.06', '13.3.0'],
  ['26.08', '13.4.1'],
  ['26.09', '13.4.1'],
  ['26.10', '13.4.3'],
  // We found no release notes of 26.11 (2026-11-27). No release had an older CUDA than the one before.
  ['26.11', '13'],
];

/**
 * Oldest branch of the NVIDIA driver on which every minor version of a CUDA runs without forward compatibility, though
 * with fewer features than on the driver of that version:
 * https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html (2026-11-27), table 1.
 */
const MINIMUM_DRIVERS: Readonly<Record<string, number>> = { 12: 525, 13: 580 };

/**
 * Oldest compute capability of the GPUs that a CUDA supports. CUDA 13 dropped Volta (7.0), but not Turing (7.5):
 * https://github.com/NVIDIA/cuDecomp/pull/97 (2026-11-27).
 */
const MINIMUM_CAPABILITIES: Readonly<Record<string, number>> = { 13: 7.5 };

/**
 * Branch of the NVIDIA driver in the images of managed nodes, for Kubernetes 1.34 and newer. No source has the driver of
 * Auto Mode's nodes, and the node class of another Karpenter names an image that we do not know.
 */
export const NODE_DRIVERS: Readonly<Record<GpuNodePoolSettings['ami'], number>> = {
  // 580.159.03 in v20260714: https://github.com/awslabs/amazon-eks-ami/blob/81fec2e89585/CHANGELOG.md (2026-07-23). Since
  // v20260917 a second driver, for G7: https://github.com/awslabs/amazon-eks-ami/issues/2768 (2026-09-21).
  AL2023: 580,
  // 580.178.04 in 1.68.0: https://bottlerocket.dev/en/os/1.68.x/version-information/gpu-drivers/1.68.0/ (2026-11-27)
  Bottlerocket: 580,
};

/** What to do about a driver that is too old. */
export const DRIVER_FIX =
  'update the nodes to a newer image, or return to the former TRITON_RELEASE (docs/runbook.md#tritongpumissing)';

const getMajor = (cuda: string): string => cuda.split('.')[0] ?? '';

/** The CUDA of a release; of one between two rows with the same major version, only that version. */
function getCuda(release: string): string | undefined {
  const next = RELEASES.findIndex(([one]) => one >= release);
  const [found, cuda] = RELEASES[next] ?? [];
  if (cuda === undefined || found === release) return cuda;
  const before = RELEASES[next - 1]?.[1];
  const major = getMajor(cuda);
  return before !== undefined && getMajor(before) === major ? major : undefined;
}

/**
 * The CUDA of an image of Triton, and the oldest branch of the driver that it needs. Undefined if they are not known: for
 * a tag that is not NVIDIA's, or a release outside the table. The tag of a copy in ECR ends in 12 digits.
 */
export function getCudaNeed(image: string): { cuda: string; driver: number } | undefined {
  const release = /:(\d\d\.\d\d)-py3(?:-[0-9a-f]{12})?(?:@|$)/.exec(image)?.[1];
  const cuda = release && getCuda(release);
  const driver = cuda && MINIMUM_DRIVERS[getMajor(cuda)];
  return cuda && driver ? { cuda, driver } : undefined;
}

/** Why the driver of the nodes of a pool is too old for the image, if it is. That of Karpenter's nodes is not known. */
export function findOldDriver(
  { name, mechanism, ami }: Pick<GpuNodePoolSettings, 'name' | 'mechanism' | 'ami'>,
  image: string,
): string | undefined {
  const need = getCudaNeed(image);
  const driver = NODE_DRIVERS[ami];
  if (need === undefined || mechanism !== 'managed-node-group' || driver >= need.driver) return undefined;
  return `pool ${name}: ${ami} has driver ${driver}, but CUDA ${need.cuda} of the image needs ${need.driver} or newer without forward compatibility`;
}

/** What to do about a GPU that is too old. */
export const CAPABILITY_FIX =
  'choose newer instanceTypes, or an image whose CUDA supports them, as tritonserver:25.06-py3 does';

/** The instance types of a pool whose GPUs the CUDA of the image does not support, one sentence for each. */
export function findOldGpus(pool: GpuNodePoolSettings, image: string): string[] {
  const { cuda = '' } = getCudaNeed(image) ?? {};
  const minimum = MINIMUM_CAPABILITIES[getMajor(cuda)] ?? 0;
  return pool.instanceTypes
    .map((type) => ({ type, capability: getComputeCapability(pool, type) }))
    .filter(({ capability }) => Number(capability) < minimum)
    .map(({ type, capability }) => {
      return `pool ${pool.name}: ${type} has compute capability ${capability}, and CUDA ${cuda} of the image needs ${minimum} or newer`;
    });
}
