import { GITHUB_ISSUER as ISSUER } from '../../infra/trust-subject';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { createGithubProvider, testMoto } from '../support/moto';
import { PUBLISHER } from '../support/publisher-settings';
import { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const TEST_MS = 10 * 60_000;

describeUnless(whyNoAwsStack(), 'the IAM provider of publisherIssuer', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test(
    'is looked up: the preview names the command if the account has none, and creates none',
    async () => {
      const moto = await testMoto(scratch);
      const options = { plugins: await awsPlugins(), config: PUBLISHER, env: moto.env };
      const stack = await TestStack.create(scratch, 'staging', options);
      const refusal = await stack.preview().catch((error: unknown) => String(error));
      expect(refusal).toContain(`cannot find the IAM provider of ${ISSUER} in this account`);
      expect(refusal).toContain(
        `aws iam create-open-id-connect-provider --client-id-list sts.amazonaws.com --url ${ISSUER}`,
      );

      await createGithubProvider(moto);
      const created = (await stack.changes()).map(({ urn }) => urn.split('::').slice(2).join(' '));
      const ofPublisher = created.filter((name) => name.includes('PublisherRole$'));
      expect(ofPublisher.map((name) => name.split('$').at(-1))).toEqual(
        expect.arrayContaining(['aws:iam/role:Role publisher']),
      );
      expect(ofPublisher.filter((name) => name.includes('OpenIdConnectProvider'))).toEqual([]);
    },
    TEST_MS,
  );
});
