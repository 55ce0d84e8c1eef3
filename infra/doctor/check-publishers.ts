import { error, isOwn, ok, warning, type Check, type Context, type Finding } from './check';
import { isExampleSubject, subjectsWithoutIds } from '../trust-subject';
import type { PublisherSettings } from '../settings/types';

/** The IAM provider of the issuer, of which an account can have one. The stack looks it up, or creates it. */
export const oidcProviderCheck: Check = {
  name: 'OIDC provider',
  run: async (context) => {
    const { publisher } = context.settings;
    if (publisher === undefined || publisher.subjects.every(isExampleSubject)) {
      return [ok('none needed: the stack creates no role for publishers')];
    }
    return [await judgeProvider(context, publisher)];
  },
};

async function judgeProvider(
  { account, settings }: Context,
  { issuer, audience, providerArn, createProvider }: PublisherSettings,
): Promise<Finding> {
  const { account: id } = await account.identity();
  if (providerArn?.includes(`:iam::${id}:`) === false) {
    return error(
      `publisherOidcProviderArn is ${providerArn}, but the account is ${id}`,
      'set publisherOidcProviderArn to a provider of this account',
    );
  }
  const arn = providerArn ?? `arn:${account.partition}:iam::${id}:oidc-provider/${issuer.replace(/^https:\/\//, '')}`;
  const provider = await account.oidcProvider(arn);
  const set = `pulumi config set --stack ${settings.stack} createPublisherOidcProvider`;
  if (provider === undefined) {
    if (createProvider === true) return ok(`the account has none for ${issuer}, and the stack creates it`);
    return error(
      `${arn} does not exist`,
      providerArn === undefined
        ? `in one stack of the account: ${set} true`
        : `aws iam create-open-id-connect-provider --url https://${arn.split(':oidc-provider/')[1]} --client-id-list ${audience}`,
    );
  }
  if (createProvider === true) {
    const { cluster } = settings;
    // "pulumi destroy" leaves the provider in the account.
    const isUp = cluster.kind === 'existing' || (await account.cluster(cluster.name)) !== undefined;
    if (isUp && isOwn(provider.tags, settings)) return ok(`${arn} exists, with the tags of this stack`);
    const found = `${arn} exists already`;
    return isUp
      ? warning(`${found}, which is correct only if this stack created it`, `otherwise: ${set} false`)
      : error(`${found}, so "pulumi up" cannot create it`, `${set} false`);
  }
  if (provider.audiences.includes(audience)) return ok(`${arn} exists`);
  return error(
    `${arn} has the audiences ${provider.audiences.join(', ')}, but tokens have ${audience}`,
    `aws iam add-client-id-to-open-id-connect-provider --open-id-connect-provider-arn ${arn} --client-id ${audience}`,
  );
}

/** The form of GitHub's subjects (trust-subject.ts). */
export const subjectsCheck: Check = {
  name: 'publisher subjects',
  run: ({ settings: { publisher } }) => {
    if (publisher === undefined) return [ok('none needed: publisherSubjects is empty')];
    const { issuer, subjects, prunerSubjects } = publisher;
    const findings = [judgeSubjects('publisherSubjects', issuer, subjects)];
    return prunerSubjects.length === 0
      ? findings
      : [...findings, judgeSubjects('prunerSubjects', issuer, prunerSubjects)];
  },
};

/** @param setting the key of the stack file that has the subjects */
export function judgeSubjects(
  setting: 'publisherSubjects' | 'prunerSubjects',
  issuer: string,
  subjects: readonly string[],
): Finding {
  const examples = subjects.filter(isExampleSubject);
  if (examples.length > 0) {
    return warning(
      `${setting}: ${examples.join(', ')} is the example of this package, which no job has`,
      `set ${setting} to the subject of a job of your repository (docs/ci.md)`,
    );
  }
  const old = subjectsWithoutIds(issuer, subjects);
  if (old.length === 0) return ok(`${setting}: ${subjects.join(', ')}`);
  return warning(
    `${setting}: ${old.join(', ')} has no ids of owner and repository, but tokens of repositories that were created, renamed or transferred since 2026-07-15 have them: repo:OWNER@ID/NAME@ID:...`,
    `"gh api /repos/OWNER/NAME/actions/oidc/customization/sub" shows the form of the tokens; set ${setting} to it, or list both forms`,
  );
}
