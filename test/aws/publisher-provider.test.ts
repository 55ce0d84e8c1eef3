import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { askMoto, testMoto } from '../support/moto';
import { PUBLISHER } from '../support/publisher-settings';
import { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const ISSUER = 'https://token.actions.githubusercontent.com';
const TEST_MS = 10 * 60_000;

describeUnless(whyNoAwsStack(), 'the IAM provider of publisherIssuer', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test(
    'is looked up: the preview names the settings if the account has none, and creates none',
    async () => {
      const moto = await testMoto(scratch);
      const config = { publisherSubjects: PUBLISHER.publisherSubjects };
      const stack = await TestStack.create(scratch, 'staging', { plugins: await awsPlugins(), config, env: moto.env });
      const refusal = await stack.preview().catch((error: unknown) => String(error));
      expect(refusal).toContain(`cannot find the IAM provider of ${ISSUER} in this account`);
      expect(refusal).toContain('set createPublisherOidcProvider to true');

      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      const request = `Action=CreateOpenIDConnectProvider&Version=2010-05-08&Url=${encodeURIComponent(ISSUER)}`;
      await askMoto(moto, 'iam', '/', form, `${request}&ClientIDList.member.1=sts.amazonaws.com`);
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
