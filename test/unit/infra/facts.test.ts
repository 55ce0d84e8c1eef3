import { subnetRanges } from '../../../infra/network/cidr';
import { EKS_VERSIONS, supportWarning } from '../../../infra/cluster/eks-versions';
import {
  computeCapabilityOf,
  GPU_INSTANCE_TYPE_NAMES,
  GPU_INSTANCE_TYPES,
} from '../../../infra/gpu/gpu-instance-types';
import { completePool } from '../../../infra/settings/complete-pool';
import { readKubeconfig } from '../../../infra/cluster/kubeconfig';

describe('subnets of a network', () => {
  test('an eighth for the nodes of each zone, an eighth of the last eighth for each public subnet', () => {
    expect(subnetRanges('10.0.0.0/16', 3)).toEqual({
      private: ['10.0.0.0/19', '10.0.32.0/19', '10.0.64.0/19'],
      public: ['10.0.224.0/22', '10.0.228.0/22', '10.0.232.0/22'],
    });
    expect(subnetRanges('172.16.16.0/20', 2)).toEqual({
      private: ['172.16.16.0/23', '172.16.18.0/23'],
      public: ['172.16.30.0/26', '172.16.30.64/26'],
    });
  });

  test('none overlaps another, and a zone at the end moves none', () => {
    const six = subnetRanges('10.128.0.0/16', 6);
    const spans = [...six.private, ...six.public].map((cidr) => {
      const [address = '', length = ''] = cidr.split('/');
      const first = address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
      return [first, first + 2 ** (32 - Number(length))] as const;
    });
    spans.sort(([a], [b]) => a - b);
    spans.slice(1).forEach(([first], index) => expect(first).toBeGreaterThanOrEqual(spans[index]?.[1] ?? 0));
    expect(subnetRanges('10.128.0.0/16', 3).public).toEqual(six.public.slice(0, 3));
    expect(subnetRanges('10.128.0.0/16', 3).private).toEqual(six.private.slice(0, 3));
  });

  test.each(['10.0.0.0/8', '10.0.0.0/24', '10.0.0.0', '10.0.1.0/16', '300.0.0.0/16', 'x/16'])(
    '%s is refused',
    (cidr) => {
      expect(() => subnetRanges(cidr, 3)).toThrow(/not /);
    },
  );
});

test('GPU machines: one GPU or more, and a compute capability that TensorRT knows', () => {
  for (const type of GPU_INSTANCE_TYPE_NAMES) {
    expect(GPU_INSTANCE_TYPES[type].gpus).toBeGreaterThan(0);
    expect(computeCapabilityOf(type)).toMatch(/^\d+\.\d$/);
  }
  expect([
    computeCapabilityOf('g5.xlarge'),
    computeCapabilityOf('g6.xlarge'),
    computeCapabilityOf('p5.48xlarge'),
  ]).toEqual(['8.6', '8.9', '9.0']);
});

describe('versions of EKS', () => {
  const { standardSupportUntil } = EKS_VERSIONS['1.35'];
  const before = (days: number): Date => new Date(Date.parse(standardSupportUntil) - days * 86_400_000);

  test('a warning comes before their support ends, and stays', () => {
    expect(supportWarning('1.35', before(61))).toBeUndefined();
    expect(supportWarning('1.35', before(60))).toBe(
      'standard support of Kubernetes 1.35 ends on 2027-03-27: set kubernetesVersion to a newer one',
    );
    expect(supportWarning('1.35', before(-1))).toMatch(/^standard support of Kubernetes 1\.35 ended on/);
  });
});

describe('the kubeconfig of an existing cluster', () => {
  const named = (name: string): object => ({ name, cluster: { server: `https://${name}` } });
  const config = JSON.stringify({
    'current-context': 'a',
    contexts: [
      { name: 'a', context: { cluster: 'a', user: 'a' } },
      { name: 'b', context: { cluster: 'b', user: 'b' } },
      { name: 'broken', context: { cluster: 'b', user: 'nobody' } },
    ],
    clusters: [named('a'), named('b')],
    users: [
      { name: 'a', user: { token: 'secret-of-a' } },
      { name: 'b', user: { token: 'secret-of-b' } },
    ],
  });

  test('holds the chosen context and nothing of the others', () => {
    expect(JSON.parse(readKubeconfig(config, 'b'))).toEqual({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'b',
      contexts: [{ name: 'b', context: { cluster: 'b', user: 'b' } }],
      clusters: [named('b')],
      users: [{ name: 'b', user: { token: 'secret-of-b' } }],
    });
    expect(readKubeconfig(config, undefined)).toContain('"current-context":"a"');
  });

  test('what is wrong is told without what is secret', () => {
    expect(() => readKubeconfig(config, 'c')).toThrow('kubeconfig has no complete context "c"; it has: a, b, broken');
    expect(() => readKubeconfig(config, 'broken')).toThrow(/no complete context "broken"/);
    expect(() => readKubeconfig('{ token: hidden', undefined)).toThrow(/^kubeconfig is not a kubeconfig$/);
    expect(() => readKubeconfig('no/such/file', undefined)).toThrow(/^there is no kubeconfig at .*no\/such\/file$/);
  });
});

describe('a pool for programs of others', () => {
  test('has the defaults of a stack file', () => {
    expect(completePool({ name: 'a10g', instanceTypes: ['g5.xlarge'], diskGiB: 300 })).toMatchObject({
      mechanism: 'auto-mode',
      capacityTypes: ['spot', 'on-demand'],
      maximumGpus: 8,
      diskGiB: 300,
    });
  });

  test('is refused where it is wrong', () => {
    expect(() => completePool({ name: 'A10G', instanceTypes: ['g5.xlarge'] })).toThrow('the pool A10G cannot be made');
  });
});
