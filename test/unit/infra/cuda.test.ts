import { findOldDriver, getCudaNeed, NODE_DRIVERS } from '../../../infra/gpu/cuda';
import { completePool } from '../../../infra/settings/complete-pool';
import { defaultImage } from '../../../infra/triton/image';

const tagged = (tag: string): string => `nvcr.io/nvidia/tritonserver:${tag}`;

test('the table has the release that the Dockerfile names', () => {
  expect(getCudaNeed(defaultImage())).toBeDefined();
});

test.each<[what: string, image: string, cuda: string | undefined, driver: number | undefined]>([
  ['the oldest row', tagged('24.10-py3'), '12.6.2', 525],
  ['a later row', tagged('26.10-py3'), '13.4.3', 580],
  ['a digest', tagged(`26.10-py3@sha256:${'0'.repeat(64)}`), '13.4.3', 580],
  ['a copy in ECR', '1.dkr.ecr.us-east-1.amazonaws.com/triton-prod/tritonserver:26.10-py3-0123456789ab', '13.4.3', 580],
  ['a release between two rows with one major version', tagged('25.12-py3'), '13', 580],
  ['a release between two rows with different major versions', tagged('25.07-py3'), undefined, undefined],
  ['a release before the table', tagged('24.09-py3'), undefined, undefined],
  ['a release after the table', tagged('99.01-py3'), undefined, undefined],
  ['a variant, which may have another CUDA', tagged('25.10-trtllm-python-py3'), undefined, undefined],
  ['a tag of your own', 'registry.example.com/triton:1', undefined, undefined],
])('getCudaNeed of %s', (_, image, cuda, driver) => {
  expect(getCudaNeed(image)).toEqual(cuda === undefined ? undefined : { cuda, driver });
});

test.each<[of: object, tag: string, driver: number, found: RegExp | undefined]>([
  [{}, '26.10-py3', 579, undefined],
  [{ mechanism: 'managed-node-group' }, 'main', 579, undefined],
  [{ mechanism: 'managed-node-group' }, '26.10-py3', 580, undefined],
  [{ mechanism: 'managed-node-group' }, '26.10-py3', 579, /^pool gpu: AL2023 has driver 579, but CUDA 13.4.3 .* 580/],
])('findOldDriver of a pool with %j, the image %s and driver %i', (of, tag, driver, found) => {
  const replaced = jest.replaceProperty(NODE_DRIVERS, 'AL2023', driver);
  const pool = completePool({ name: 'gpu', instanceTypes: ['g5.xlarge'], ...of });
  expect(findOldDriver(pool, tagged(tag))).toEqual(found && expect.stringMatching(found));
  replaced.restore();
});
