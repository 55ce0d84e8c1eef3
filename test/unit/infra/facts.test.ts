import { NEWEST_EKS_VERSION, versionFault } from '../../../infra/cluster/eks-versions';
import { getNvmeGiB, GPU_INSTANCE_TYPE_NAMES, GPU_INSTANCE_TYPES } from '../../../infra/gpu/gpu-instance-types';
import { getVolume } from '../../../infra/gpu/pool';
import { completePool } from '../../../infra/settings/gpu-node-pools';
import { readKubeconfig } from '../../../infra/cluster/kubeconfig';

test('GPU_INSTANCE_TYPES have GPUs, and NVMe storage that the image does not fill', () => {
  for (const type of GPU_INSTANCE_TYPE_NAMES) {
    const facts = GPU_INSTANCE_TYPES[type];
    expect(facts.gpus).toBeGreaterThan(0);
    expect([type, getNvmeGiB(facts) > 100]).toEqual([type, true]);
  }
});

test.each<[type: string, pool: object, GiB: number, isFast: boolean]>([
  ['g5.xlarge', {}, 20, true],
  ['g5.xlarge', { diskGiB: 231 }, 20, true],
  ['g5.xlarge', { diskGiB: 232 }, 232, true],
  ['g5.2xlarge', { diskGiB: 300 }, 20, true],
  ['g7e.2xlarge', {}, 150, true],
  ['g5.xlarge', { nodes: 1 }, 40, false],
  ['g5.2xlarge', { nodes: 1, diskGiB: 300 }, 300, true],
  ['g5.xlarge', { nodeClass: { group: 'g', kind: 'k', name: 'n' } }, 150, false],
])('the EBS volume of %s in a pool with %j has %i GiB', (type, more, GiB, isFast) => {
  const pool = completePool({
    name: 'gpu',
    instanceTypes: ['g5.xlarge', 'g5.2xlarge', 'g7e.2xlarge'].slice(0, type === 'g7e.2xlarge' ? 3 : 2),
    ...more,
  });
  expect(getVolume(pool, type)).toMatchObject({ GiB, isFast });
});

test('versionFault accepts every version from the oldest that is tested', () => {
  for (const version of ['1.34', NEWEST_EKS_VERSION, '1.37', '1.40', '1.99', '1.100']) {
    expect([version, versionFault(version)]).toEqual([version, undefined]);
  }
  expect(versionFault('1.33')).toEqual({ reason: 'too old' });
  expect(versionFault('1.4')).toEqual({ reason: 'too old', hint: 'if you wrote 1.40, put it in quotes' });
  for (const text of ['1', '2.0', 'v1.35', '1.35.1', '1.x', '11.35', '']) {
    expect([text, versionFault(text)]).toEqual([text, { reason: 'not a Kubernetes version' }]);
  }
});

describe('readKubeconfig', () => {
  const named = (name: string): object => ({ name, cluster: { server: `https://${name}` } });
  const config = JSON.stringify({
    'current-context': 'a',
    contexts: [
      { name: 'a', context: { cluster: 'a', user: 'a' } },
      { name: 'b', context: { cluster: 'b', user: 'b' } },
      { name: 'broken', context: { cluster: 'b', user: 'missing' } },
    ],
    clusters: [named('a'), named('b')],
    users: [
      { name: 'a', user: { token: 'secret-of-a' } },
      { name: 'b', user: { token: 'secret-of-b' } },
    ],
  });

  test('returns only the chosen context with its cluster and user', () => {
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

  test('reports errors without secret values', () => {
    expect(() => readKubeconfig(config, 'c')).toThrow(
      'kubeconfig has no context "c" with its cluster and user; its contexts: a, b, broken',
    );
    expect(() => readKubeconfig(config, 'broken')).toThrow(/no context "broken" with its cluster and user/);
    expect(() => readKubeconfig('{ token: hidden', undefined)).toThrow(/^kubeconfig is not a kubeconfig$/);
    expect(() => readKubeconfig('no/such/file', undefined)).toThrow(/^the kubeconfig .*no\/such\/file does not exist$/);
  });
});
