import {
  defaultRelease,
  findUnsupported,
  getRelease,
  getVulnerabilities,
  TRITON_RELEASES,
  VULNERABILITIES,
} from '../../../src/model/triton-releases';

test('the tables know the release of the Dockerfile, which has no known critical vulnerability', () => {
  expect(TRITON_RELEASES[defaultRelease()]).toMatch(/^2\.\d+\.\d+$/);
  expect(getVulnerabilities(defaultRelease())).toEqual([]);
});

test('each vulnerability is critical, and fixed in a release of the table', () => {
  for (const { id, cvss, fixedIn } of VULNERABILITIES) {
    expect([id, cvss >= 9 && cvss <= 10, fixedIn in TRITON_RELEASES]).toEqual([id, true, true]);
  }
});

test.each([
  ['nvcr.io/nvidia/tritonserver:26.11-py3', '26.11'],
  ['nvcr.io/nvidia/tritonserver:25.06-py3-min', '25.06'],
  [`registry.example:5000/team/tritonserver:24.10-py3@sha256:${'a'.repeat(64)}`, '24.10'],
  ['mirror.example/my-triton_gpu:26.12', '26.12'],
  ['mirror.example/tritonserver:26.13-py3', undefined],
  ['mirror.example/tritonserver:26.11.2', undefined],
  ['mirror.example/tritonserver:2026.11', undefined],
  [`mirror.example/tritonserver@sha256:${'a'.repeat(64)}`, undefined],
  ['mirror.example/triton/ubuntu:24.10', undefined],
  ['node:24.10', undefined],
])('getRelease of %s is %s', (image, release) => {
  expect(getRelease(image)).toBe(release);
});

test.each([
  ['23.05', 6],
  ['25.06', 6],
  ['25.07', 3],
  ['25.08', 2],
  ['26.02', 2],
  ['26.03', 1],
  ['26.05', 1],
  ['26.06', 0],
  ['27.01', 0],
])('release %s has %d known critical vulnerabilities', (release, count) => {
  expect(getVulnerabilities(release)).toHaveLength(count);
});

const TENSOR = { dims: [1], data_type: 'TYPE_FP32' };

test.each([
  ['torch_aoti', {}, '26.03', []],
  ['torch_aoti', {}, '26.02', ['platform']],
  ['torch_aoti', { input: [{ ...TENSOR, name: 'INPUT__0' }], output: [{ ...TENSOR, name: 'OUTPUT__0' }] }, '26.04', []],
  ['torch_aoti', { input: [{ ...TENSOR, name: 'ARGS[0]' }] }, '26.05', []],
  ['torch_aoti', { max_batch_size: 1 }, '26.05', []],
  ['torch_aoti', { max_batch_size: 8 }, '26.06', []],
  ['torch_aoti', { input: [{ ...TENSOR, name: 'INPUT__0', data_type: 'TYPE_BF16' }] }, '26.11', []],
  // Python serves it.
  ['torch_aoti', { max_batch_size: 8, runtime: 'model.py' }, '26.05', []],
  [
    'pytorch_libtorch',
    { max_batch_size: 8, input: [{ ...TENSOR, name: 'ARGS', data_type: 'TYPE_BF16' }] },
    '24.10',
    [],
  ],
])('of a model of %s with %j, release %s cannot serve %j', (platform, config, release, fields) => {
  expect(findUnsupported({ platform, config: { name: 'm', ...config } }, release).map(({ field }) => field)).toEqual(
    fields,
  );
});
