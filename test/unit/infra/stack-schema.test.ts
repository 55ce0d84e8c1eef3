import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import { load } from 'js-yaml';
import { stackSchema } from '../../../infra/settings/stack-schema';
import { paths } from '../../../src/core/paths';
import { LOCAL_S3 } from '../../support/registered-stack';
import { POOL, getProblems } from './settings-problems';

const FILE = join(paths.root, 'infra', 'settings', 'stack.schema.json');
const FIRST_LINE = '# yaml-language-server: $schema=infra/settings/stack.schema.json\n';
const STACKS = ['local', 'prod', 'staging'];

const isValid = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(stackSchema());

/** What is wrong with settings by the schema, as `/path message`. */
function refusals(settings: Record<string, unknown>): string[] {
  const config = Object.fromEntries(Object.entries(settings).map(([key, value]) => [`triton-serving:${key}`, value]));
  isValid({ config });
  return (isValid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

// UPDATE_DOCS=1 updates it; then run prettier.
test('the schema file is generated from the tables of settings', () => {
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(FILE, `${JSON.stringify(stackSchema(), null, 2)}\n`);
  expect(JSON.parse(readFileSync(FILE, 'utf8'))).toEqual(stackSchema());
});

test.each(STACKS)('Pulumi.%s.yaml names the schema and is valid', (stack) => {
  const text = readFileSync(join(paths.root, `Pulumi.${stack}.yaml`), 'utf8');
  expect(text.startsWith(FIRST_LINE)).toBe(true);
  isValid(load(text));
  expect(isValid.errors).toBeNull();
});

/** Settings that the program and the schema accept. */
const ACCEPTED: Record<string, unknown>[] = [
  { replicas: 3 },
  { replicas: '3' },
  { protect: true },
  { protect: 'false' },
  { namespace: { create: true } },
  { availabilityZones: '["us-east-1a", "us-east-1b"]' },
  { pod: { runtimeClassName: '' } },
  { pod: { nodeSelector: { pool: 'gpu' }, imagePullSecrets: ['registry'] } },
  { resources: { cpu: 0.5 } },
  { environment: { TZ: 'UTC' } },
  { gpuNodePools: [POOL] },
  // Neither private nor too large.
  { publicAccessCidrs: ['172.32.0.0/16', '12.0.0.0/8'] },
  { monitoring: { slo: { p99Milliseconds: 100, errorRate: 0.001 } } },
];

test.each(ACCEPTED)('%j is accepted', (settings) => {
  expect({ schema: refusals(settings), program: getProblems(settings) }).toEqual({ schema: [], program: [] });
});

test('encrypted values are accepted only where they stay encrypted', () => {
  const secure = { secure: 'v1:AAAA:BBBB' };
  expect(refusals({ existingCluster: { kubeconfig: secure }, environment: { TOKEN: secure } })).toEqual([]);
  expect(refusals({ existingCluster: { context: secure } })).not.toEqual([]);
  expect(refusals({ pod: { nodeSelector: { pool: secure } } })).not.toEqual([]);
  expect(refusals({ pod: { priorityClassName: secure } })).not.toEqual([]);
});

/** Settings that the program refuses, and the place that the schema names. */
const REFUSED: { settings: Record<string, unknown>; at: string }[] = [
  { settings: { replica: 3 }, at: '' },
  { settings: { replicas: 'three' }, at: 'replicas' },
  { settings: { replicas: 1.5 }, at: 'replicas' },
  { settings: { replicas: -1 }, at: 'replicas' },
  { settings: { protect: 'yes' }, at: 'protect' },
  { settings: { natGateways: 'two' }, at: 'natGateways' },
  { settings: { availabilityZones: 'us-east-1a' }, at: 'availabilityZones' },
  { settings: { s3: { ...LOCAL_S3, accessKeyId: 5 } }, at: 's3/accessKeyId' },
  { settings: { environment: { THREADS: 4 } }, at: 'environment/THREADS' },
  { settings: { gpuNodePools: POOL }, at: 'gpuNodePools' },
  { settings: { gpuNodePools: [{ ...POOL, name: undefined }] }, at: 'gpuNodePools/0' },
  { settings: { gpuNodePools: [{ ...POOL, instanceType: 'g5.xlarge' }] }, at: 'gpuNodePools/0' },
  { settings: { gpuNodePools: [{ ...POOL, maximumGpus: '3' }] }, at: 'gpuNodePools/0/maximumGpus' },
  { settings: { gpuNodePools: [{ ...POOL, capacityTypes: ['spot', 'spot'] }] }, at: 'gpuNodePools/0/capacityTypes' },
  { settings: { monitoring: { slo: { errorRate: 2 } } }, at: 'monitoring/slo/errorRate' },
  { settings: { resources: { cpu: 0 } }, at: 'resources/cpu' },
  { settings: { environment: { HOME: '/root' } }, at: 'environment' },
];

test.each(REFUSED)('$settings is refused', ({ settings, at }) => {
  const given = JSON.parse(JSON.stringify(settings)) as Record<string, unknown>;
  expect(getProblems(given)).not.toEqual([]);
  const place = at === '' ? '/config' : `/config/triton-serving:${at}`;
  expect(refusals(given).map((text) => text.split(' ')[0])).toContain(place);
});
