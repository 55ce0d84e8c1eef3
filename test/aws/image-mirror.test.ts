import { DescribeImagesCommand, DescribeRepositoriesCommand, ECRClient, PutImageCommand } from '@aws-sdk/client-ecr';
import { copyTag } from '../../infra/images/mirrored-image';
import { defaultImage } from '../../infra/triton/image';
import { awsStack, HERE, whyNoAwsStack, type AwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { SETTING_CHANGES } from '../support/setting-changes';
import { readTable, tryChange } from '../support/settings-table';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 20 * 60_000;
const REPOSITORY = 'triton-staging/tritonserver';

describeUnless(whyNoAwsStack(), 'mirrorImages, with the real AWS provider on a mock of AWS', () => {
  const scratch = new Scratch();
  let made: AwsStack;
  let ecr: ECRClient;

  beforeAll(async () => {
    made = await awsStack(scratch, 'staging', { config: { publicAccessCidrs: [HERE] } });
    ecr = new ECRClient({
      region: 'us-east-1',
      endpoint: made.moto.endpoint,
      credentials: { accessKeyId: 'mock', secretAccessKey: 'mock' },
    });
    await made.stack.up();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Image of the pods. */
  const served = async (): Promise<string | undefined> => {
    const { items } = await made.plane.client.apps.listNamespacedDeployment({ namespace: 'triton' });
    return items[0]?.spec?.template.spec?.containers[0]?.image;
  };

  test(
    'a change does what docs/infrastructure.md says',
    async () => {
      const change = SETTING_CHANGES.find(({ setting }) => setting === 'mirrorImages');
      if (change === undefined) throw new Error('no such change');
      expect(await tryChange(made.stack, change)).toEqual(
        readTable().find(({ setting }) => setting === change.setting),
      );
    },
    STEP_MS,
  );

  test(
    'pods pull from the source until the copy exists, then an update without a copy is refused',
    async () => {
      made.stack.configure({ mirrorImages: true });
      expect(await made.stack.preview()).toContain(
        `this update creates ECR repositories for ${defaultImage()}, and the pods pull from the source until`,
      );
      await made.stack.up();
      expect(await served()).toBe(defaultImage());
      const { repositories = [] } = await ecr.send(new DescribeRepositoriesCommand({}));
      expect(repositories).toMatchObject([
        {
          repositoryName: REPOSITORY,
          imageTagMutability: 'IMMUTABLE',
          imageScanningConfiguration: { scanOnPush: true },
          encryptionConfiguration: { encryptionType: 'KMS' },
        },
      ]);
      const refusal = await made.stack.preview().catch(String);
      expect(refusal).toContain(`the ECR repository ${REPOSITORY} has no copy of ${defaultImage()}`);
      expect(refusal).toContain('npm run mirror-image -- --stack staging');
    },
    STEP_MS,
  );

  test(
    'pods pull the copy by its digest, and an image that is not copied is refused',
    async () => {
      const imageManifest = JSON.stringify({
        schemaVersion: 2,
        mediaType: 'application/vnd.oci.image.manifest.v1+json',
        config: { digest: `sha256:${'1'.repeat(64)}`, size: 1, mediaType: 'application/vnd.oci.image.config.v1+json' },
        layers: [],
      });
      await ecr.send(
        new PutImageCommand({ repositoryName: REPOSITORY, imageTag: copyTag(defaultImage()), imageManifest }),
      );
      const { imageDetails = [] } = await ecr.send(new DescribeImagesCommand({ repositoryName: REPOSITORY }));
      await made.stack.up();
      const copy = `123456789012.dkr.ecr.us-east-1.amazonaws.com/${REPOSITORY}@${imageDetails[0]?.imageDigest}`;
      expect(await served()).toBe(copy);

      const image = 'nvcr.io/nvidia/tritonserver:26.12-py3';
      await expect(made.stack.changesWith({ image })).rejects.toThrow(`has no copy of ${image}`);
      const digest = `sha256:${'0'.repeat(64)}`;
      await expect(made.stack.changesWith({ image: `${defaultImage()}@${digest}` })).rejects.toThrow('has no copy of');
    },
    STEP_MS,
  );

  test(
    'without mirrorImages the repositories are deleted, after the pods pull from the source again',
    async () => {
      made.stack.configure({ mirrorImages: undefined });
      const plan = await made.stack.plan();
      expect(plan.indexOf('update kubernetes:apps/v1:Deployment')).toBeGreaterThan(-1);
      expect(plan.indexOf('delete aws:ecr/repository:Repository')).toBeGreaterThan(
        plan.indexOf('update kubernetes:apps/v1:Deployment'),
      );
      await made.stack.up();
      expect(await served()).toBe(defaultImage());
      expect((await ecr.send(new DescribeRepositoriesCommand({}))).repositories).toEqual([]);
    },
    STEP_MS,
  );
});
