import type { GpuNodePoolSettings } from '../settings/types';
import { typesOnEbs } from './node-storage';

type OfPool = Pick<
  GpuNodePoolSettings,
  'ami' | 'diskGiB' | 'instanceTypes' | 'instanceTypeFacts' | 'mechanism' | 'timeSlices'
>;

/**
 * User data of the nodes of a managed group, which EKS merges with its own:
 * https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11-26), "Amazon EC2 user data".
 * With images on the instance store, SOCI pulls and unpacks the layers of an image in parallel. On EBS it does not,
 * because the small instance types have less than the 600 MiB/s that it needs (node-storage.ts).
 */
export function nodeUserData(pool: OfPool): string | undefined {
  const isLocal = pool.instanceTypes.length > 0 && typesOnEbs(pool).length === 0;
  if (pool.ami === 'AL2023') return isLocal ? AL2023_INSTANCE_STORE : undefined;
  const parts = [
    ...(isLocal ? [BOTTLEROCKET_INSTANCE_STORE] : []),
    ...(pool.timeSlices > 1 ? [bottlerocketTimeSlicing(pool.timeSlices)] : []),
  ];
  return parts.length === 0 ? undefined : parts.join('');
}

const lines = (...all: string[]): string => all.map((line) => `${line}\n`).join('');

/**
 * All NVMe disks become one file system for containerd, SOCI, the kubelet and logs of pods. SOCI downloads 20 chunks of
 * 16 MB at a time and unpacks 12 layers:
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e89585/nodeadm/doc/api.md and
 * nodeadm/internal/containerd/snapshotter/soci-snapshotter.config.toml there (2026-07-23).
 */
const AL2023_INSTANCE_STORE = lines(
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="//"',
  '',
  '--//',
  'Content-Type: application/node.eks.aws',
  '',
  'apiVersion: node.eks.aws/v1alpha1',
  'kind: NodeConfig',
  'spec:',
  '  featureGates:',
  '    FastImagePull: true',
  '  instance:',
  '    localStorage:',
  '      strategy: RAID0',
  '',
  '--//--',
);

/**
 * The same for Bottlerocket from 1.44 on, with the numbers of AL2023, because the defaults of Bottlerocket are 3 downloads
 * and 1 layer: https://bottlerocket.dev/en/os/1.60.x/api/settings/container-runtime-plugins (2026-11-26) and
 * https://github.com/aws-samples/karpenter-blueprints/tree/main/blueprints/soci-snapshotter (2026-11-26).
 */
const BOTTLEROCKET_INSTANCE_STORE = lines(
  '[settings.container-runtime]',
  'snapshotter = "soci"',
  '[settings.container-runtime-plugins.soci-snapshotter]',
  'pull-mode = "parallel-pull-unpack"',
  '[settings.container-runtime-plugins.soci-snapshotter.parallel-pull-unpack]',
  'max-concurrent-downloads-per-image = 20',
  'concurrent-download-chunk-size = "16mb"',
  'max-concurrent-unpacks-per-image = 12',
  'discard-unpacked-layers = true',
  '[settings.bootstrap-commands.instance-store]',
  'commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", ' +
    '"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/lib/soci-snapshotter"]]',
  'essential = true',
  'mode = "always"',
);

/**
 * Bottlerocket includes the device plugin and configures it from the instance's user data. The last two lines are the
 * defaults of NVIDIA, which AL2023 has. With its own defaults, Bottlerocket offers the slices as nvidia.com/gpu.shared,
 * which no pod requests: https://github.com/bottlerocket-os/bottlerocket/issues/4250 (2026-11-26).
 */
const bottlerocketTimeSlicing = (timeSlices: number): string =>
  lines(
    '[settings.kubelet-device-plugins.nvidia]',
    'device-sharing-strategy = "time-slicing"',
    '[settings.kubelet-device-plugins.nvidia.time-slicing]',
    `replicas = ${timeSlices}`,
    'rename-by-default = false',
    'fail-requests-greater-than-one = false',
  );
