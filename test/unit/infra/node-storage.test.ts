import { load } from 'js-yaml';
import { getNvmeGiB, GPU_INSTANCE_TYPE_NAMES, type GpuInstanceType } from '../../../infra/gpu/gpu-instance-types';
import { nodeClassSpec } from '../../../infra/gpu/gpu-node-pool-spec';
import { getVolumeGiB, typesOnEbs, usesInstanceStore } from '../../../infra/gpu/node-storage';
import { nodeUserData } from '../../../infra/gpu/node-user-data';
import { completePool } from '../../../infra/settings/complete-pool';
import type { GpuNodePoolSettings } from '../../../infra/settings/types';

type Mechanism = GpuNodePoolSettings['mechanism'];

const pool = (mechanism: Mechanism, instanceTypes: GpuInstanceType[], diskGiB: number, more: object = {}) =>
  completePool({
    name: 'gpu',
    mechanism,
    instanceTypes,
    diskGiB,
    ...(mechanism === 'karpenter'
      ? { nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'a' } }
      : {}),
    ...more,
  });

test.each<[GpuInstanceType, number]>([
  ['g4dn.xlarge', 116],
  ['g5.xlarge', 232],
  ['g6e.48xlarge', 7078],
  ['p5.48xlarge', 28_312],
])('%s has %i GiB of local NVMe storage', (type, GiB) => expect(getNvmeGiB({}, type)).toBe(GiB));

test('every instance type has local NVMe storage, which the image and the system do not fill', () => {
  expect(GPU_INSTANCE_TYPE_NAMES.filter((type) => getNvmeGiB({}, type) < 100)).toEqual([]);
});

describe('images and pods of a node are on its instance store if that is larger than diskGiB', () => {
  // The last columns: on the instance store, GiB of the EBS volume, types that are reported.
  test.each<[Mechanism, GpuInstanceType[], number, boolean | undefined, number, GpuInstanceType[]]>([
    ['auto-mode', ['g5.xlarge'], 150, true, 20, []],
    ['auto-mode', ['g5.xlarge'], 231, true, 20, []],
    ['auto-mode', ['g5.xlarge'], 232, false, 232, ['g5.xlarge']],
    ['auto-mode', ['g5.xlarge', 'g5.2xlarge'], 300, false, 300, ['g5.xlarge']],
    ['auto-mode', ['g5.2xlarge', 'g5.xlarge'], 300, true, 20, ['g5.xlarge']],
    ['auto-mode', ['g4dn.xlarge'], 150, false, 150, ['g4dn.xlarge']],
    ['managed-node-group', ['g5.xlarge'], 150, true, 40, []],
    ['managed-node-group', ['g5.2xlarge', 'g5.xlarge'], 300, false, 300, ['g5.xlarge']],
    ['karpenter', ['g5.xlarge'], 500, undefined, 500, []],
  ])('%s %j with %i GiB', (mechanism, types, diskGiB, isLocal, volumeGiB, reported) => {
    const of = pool(mechanism, types, diskGiB);
    const first = types[0] as GpuInstanceType;
    expect([usesInstanceStore(of, first), getVolumeGiB(of, first), typesOnEbs(of)]).toEqual([
      isLocal,
      volumeGiB,
      reported,
    ]);
  });
});

test.each([
  ['on the instance store', ['g5.xlarge'], 150],
  ['on EBS', ['g4dn.xlarge'], 150],
] as [string, GpuInstanceType[], number][])(
  'a NodeClass asks for a disk that is fast enough for parallel pulls, %s',
  (_, types, GiB) => {
    const place = { roleName: 'r', subnetIds: ['s'], securityGroupId: 'g', tags: {} };
    expect(nodeClassSpec(pool('auto-mode', types, GiB), place)).toMatchObject({
      ephemeralStorage: { size: `${GiB}Gi`, iops: 3000, throughput: 600 },
    });
  },
);

const SOCI = `[settings.container-runtime]
snapshotter = "soci"
[settings.container-runtime-plugins.soci-snapshotter]
pull-mode = "parallel-pull-unpack"
[settings.container-runtime-plugins.soci-snapshotter.parallel-pull-unpack]
max-concurrent-downloads-per-image = 20
concurrent-download-chunk-size = "16mb"
max-concurrent-unpacks-per-image = 12
discard-unpacked-layers = true
[settings.bootstrap-commands.instance-store]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/lib/soci-snapshotter"]]
essential = true
mode = "always"
`;
const SLICES = `[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "time-slicing"
[settings.kubelet-device-plugins.nvidia.time-slicing]
replicas = 3
rename-by-default = false
fail-requests-greater-than-one = false
`;

describe('user data of managed nodes', () => {
  const userData = (types: GpuInstanceType[], more: object): string | undefined =>
    nodeUserData(pool('managed-node-group', types, 150, more));

  test.each<[string, GpuInstanceType[], object, string | undefined]>([
    ['Bottlerocket on the instance store', ['g5.xlarge'], { ami: 'Bottlerocket' }, SOCI],
    [
      'Bottlerocket on the instance store with time slices',
      ['g5.xlarge'],
      { ami: 'Bottlerocket', timeSlices: 3 },
      SOCI + SLICES,
    ],
    ['Bottlerocket on EBS with time slices', ['g4dn.xlarge'], { ami: 'Bottlerocket', timeSlices: 3 }, SLICES],
    ['Bottlerocket on EBS', ['g4dn.xlarge'], { ami: 'Bottlerocket' }, undefined],
    ['AL2023 on EBS', ['g4dn.xlarge'], {}, undefined],
    ['AL2023, one type of two on EBS', ['g5.xlarge', 'g4dn.xlarge'], {}, undefined],
  ])('%s', (_, types, more, text) => expect(userData(types, more)).toBe(text));

  test('AL2023 on the instance store: one MIME part for nodeadm', () => {
    const [head = '', part = '', ...rest] = (userData(['g5.xlarge'], {}) ?? '').split(/^--\/\/(?:--)?\n/m);
    expect(head).toBe('MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n');
    expect(rest).toEqual(['']);
    const [type, ...config] = part.split('\n');
    expect(type).toBe('Content-Type: application/node.eks.aws');
    expect(load(config.join('\n'))).toEqual({
      apiVersion: 'node.eks.aws/v1alpha1',
      kind: 'NodeConfig',
      spec: { featureGates: { FastImagePull: true }, instance: { localStorage: { strategy: 'RAID0' } } },
    });
  });
});
