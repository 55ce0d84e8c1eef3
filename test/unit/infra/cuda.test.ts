import { compareDriver, getCudaNeed, NODE_DRIVERS } from '../../../infra/gpu/cuda';
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

describe('compareDriver', () => {
  const pool = (more: object) => completePool({ name: 'gpu', instanceTypes: ['g5.xlarge'], ...more });
  const GROUP = { mechanism: 'managed-node-group' };
  const OTHER = {
    mechanism: 'karpenter',
    nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'gpu' },
  };
  afterEach(() => jest.restoreAllMocks());

  test.each<[of: object, tag: string, fits: boolean | undefined, found: RegExp]>([
    [GROUP, '26.10-py3', true, /^pool gpu: AL2023 has driver 580, and CUDA 13.4.3 of the image needs 580 or newer$/],
    [{ ...GROUP, ami: 'Bottlerocket' }, '25.06-py3', true, /^pool gpu: Bottlerocket has driver 580, and CUDA 12.9.1/],
    [GROUP, 'main', undefined, /^pool gpu: not known, because the CUDA of .*:main is not in/],
    [{}, '26.10-py3', undefined, /needs 580 or newer; the driver of nodes of Auto Mode is not known until/],
    [OTHER, '26.10-py3', undefined, /the driver of nodes of another Karpenter is not known until/],
  ])('a pool with %j and the image %s', (of, tag, fits, found) => {
    expect(compareDriver(pool(of), tagged(tag))).toEqual({ fits, found: expect.stringMatching(found) as string });
  });

  test.each([
    [579, false],
    [580, true],
  ])('nodes with driver %i', (driver, fits) => {
    jest.replaceProperty(NODE_DRIVERS, 'AL2023', driver);
    expect(compareDriver(pool(GROUP), tagged('26.10-py3')).fits).toBe(fits);
  });
});
