import { copyTag, mirroredImages } from '../../../../infra/images/mirrored-image';
import { useMirror, type ImageId } from '../../../../infra/images/use-mirror';
import { readSettings, type Settings } from '../../../../infra/settings';
import { AGENT_IMAGE, defaultImage } from '../../../../infra/triton/image';
import { getConfig, registeredStack } from '../../../support/registered-stack';

const settings = (values: object = {}, stack = 'staging'): Settings =>
  readSettings({ ...getConfig('staging', { mirrorImages: true, ...values }), stack });
const DIGEST = `sha256:${'1'.repeat(64)}`;

test('mirroredImages are those of the pods', () => {
  expect(mirroredImages(settings({}, 'Prod.EU_1'))).toMatchObject([
    {
      setting: 'image',
      source: defaultImage(),
      digest: undefined,
      repository: 'triton-prod.eu_1/tritonserver',
      tag: copyTag(defaultImage()),
    },
    { setting: 'agentImage', source: AGENT_IMAGE, repository: 'triton-prod.eu_1/node' },
  ]);
});

test.each([
  ['nvcr.io/nvidia/tritonserver:26.11-py3', '26.11-py3-6bbb8e0b3684'],
  ['registry.example:5000/triton:1', '1-2272cbab8d73'],
  ['other.example/triton:1', '1-2e53d4df2cf6'],
  [`registry.example:5000/triton:1@${DIGEST}`, '1-111111111111'],
  [`registry.example:5000/triton@${DIGEST}`, '111111111111'],
])('the copy of %s has the tag %s', (image, tag) => {
  expect(mirroredImages(settings({ image }))[0]?.tag).toBe(tag);
});

describe('useMirror', () => {
  const repository = (name: string, stack = 'staging') => ({
    type: 'aws:ecr/repository:Repository',
    outputs: { name: `triton-${stack}/${name}`, repositoryUrl: `registry/triton-${stack}/${name}` },
  });
  const list = (ids: ImageId[]) => () => Promise.resolve(ids);
  const none = () => Promise.reject(new Error('not asked'));

  test('leaves a stack without mirrorImages as it is', async () => {
    const given = settings({ mirrorImages: false });
    const used = await useMirror(given, { a: repository('tritonserver') }, none);
    expect(used).toEqual({ settings: given, warning: undefined });
  });

  test('replaces both images by their copies', async () => {
    const image = `registry.example/triton:1@${DIGEST}`;
    const given = settings({ image, agentImage: 'node:24' });
    const state = { a: repository('tritonserver'), b: repository('node') };
    const other = `sha256:${'2'.repeat(64)}`;
    const listed = list([
      { imageTag: '1-111111111111', imageDigest: DIGEST },
      { imageTag: copyTag('node:24'), imageDigest: other },
    ]);
    const { settings: used, warning } = await useMirror(given, state, listed);
    expect(warning).toBeUndefined();
    expect(used.triton.image).toBe(`registry/triton-staging/tritonserver@${DIGEST}`);
    expect(used.triton.agentImage).toBe(`registry/triton-staging/node@${other}`);
    // The warnings of the preview read the release in the name of the source.
    expect(given.triton.image).toBe(image);
  });

  test.each([
    ['a new stack', {}],
    ['a stack that was renamed', { a: repository('tritonserver', 'old') }],
  ])('warns that pods of %s pull from the source', async (_, state) => {
    const given = settings();
    const { settings: used, warning } = await useMirror(given, state, none);
    expect(warning).toContain(`repositories for ${defaultImage()}, ${AGENT_IMAGE}, and the pods pull from`);
    expect(used.triton.image).toBeUndefined();
  });

  test.each<[string, ImageId[]]>([
    ['an empty repository', []],
    ['another tag', [{ imageTag: '2-111111111111', imageDigest: DIGEST }]],
    ['the tag of an image without a digest', [{ imageTag: '1', imageDigest: DIGEST }]],
    ['another digest', [{ imageTag: '1-111111111111', imageDigest: `sha256:${'1'.repeat(63)}2` }]],
    ['an image without a tag', [{ imageDigest: DIGEST }]],
  ])('refuses %s', async (_, ids) => {
    const given = settings({ image: `registry.example/triton:1@${DIGEST}` });
    await expect(useMirror(given, { a: repository('tritonserver') }, list(ids))).rejects.toThrow(
      expect.objectContaining({
        message: `mirrorImages is true, but the ECR repository triton-staging/tritonserver has no copy of registry.example/triton:1@${DIGEST}`,
        hint: 'copy it: npm run mirror-image -- --stack staging',
      }) as Error,
    );
  });
});

describe('the ECR repositories', () => {
  const REPOSITORY = 'aws:ecr/repository:Repository';
  const POLICY = 'aws:ecr/lifecyclePolicy:LifecyclePolicy';

  test('exist only with mirrorImages', async () => {
    expect((await registeredStack('staging')).all(REPOSITORY)).toEqual([]);
  });

  test('have immutable tags, scans and encryption, and expire only images without a tag', async () => {
    const made = await registeredStack('staging', { mirrorImages: true });
    expect(made.all(REPOSITORY).map(({ inputs }) => inputs)).toEqual(
      ['tritonserver', 'node'].map((name) => ({
        name: `triton-staging/${name}`,
        imageTagMutability: 'IMMUTABLE',
        imageScanningConfiguration: { scanOnPush: true },
        encryptionConfigurations: [{ encryptionType: 'KMS' }],
        forceDelete: true,
      })),
    );
    for (const { inputs } of made.all(POLICY)) {
      const { rules } = JSON.parse(inputs['policy'] as string) as { rules: { selection: { tagStatus: string } }[] };
      expect(rules.map(({ selection }) => selection.tagStatus)).toEqual(['untagged']);
    }
    expect(made.all(POLICY)).toHaveLength(2);
  });

  test('of a protected stack cannot be deleted', async () => {
    const made = await registeredStack('prod', { mirrorImages: true });
    const found = made.all(REPOSITORY).map(({ protect, inputs }) => [protect, inputs['forceDelete']]);
    expect(found).toEqual([
      [true, false],
      [true, false],
    ]);
  });
});
