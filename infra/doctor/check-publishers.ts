import { error, isOwn, ok, warning, type Check, type Context, type Finding } from './check';

const GITHUB = 'https://token.actions.githubusercontent.com';

/** The IAM provider of the issuer. An account can have one for each issuer, so `pulumi up` cannot create a second one. */
export const oidcProviderCheck: Check = {
  name: 'OIDC provider',
  run: async (context) => {
    const { publisher } = context.settings;
    if (publisher === undefined) return [ok('none needed: publisherSubjects is empty')];
    return [
      publisher.providerArn === undefined
        ? await judgeNewProvider(context, publisher)
        : await judgeGivenProvider(context, publisher.providerArn, publisher.audience),
    ];
  },
};

async function judgeNewProvider(
  { account, settings }: Context,
  { issuer, audience }: { issuer: string; audience: string },
): Promise<Finding> {
  const { account: id } = await account.identity();
  const arn = `arn:${account.partition}:iam::${id}:oidc-provider/${issuer.replace(/^https:\/\//, '')}`;
  const provider = await account.oidcProvider(arn);
  if (provider === undefined) return ok(`the account has none for ${issuer}, and the stack creates it`);
  if (isOwn(provider.tags, settings)) return ok(`${arn} exists, with the tags of this stack`);
  const setting = `pulumi config set --stack ${settings.stack} publisherOidcProviderArn ${arn}`;
  const addAudience = provider.audiences.includes(audience) ? '' : `, and ${addAudienceCommand(arn, audience)}`;
  return error(`${arn} exists already, so "pulumi up" cannot create it`, `${setting}${addAudience}`);
}

async function judgeGivenProvider({ account }: Context, arn: string, audience: string): Promise<Finding> {
  const { account: id } = await account.identity();
  if (!arn.includes(`:iam::${id}:`)) {
    return error(
      `publisherOidcProviderArn is ${arn}, but the account is ${id}`,
      'set publisherOidcProviderArn to a provider of this account',
    );
  }
  const provider = await account.oidcProvider(arn);
  if (provider === undefined) {
    return error(
      `${arn} does not exist`,
      `aws iam create-open-id-connect-provider --url https://${arn.split(':oidc-provider/')[1]} --client-id-list ${audience}`,
    );
  }
  if (provider.audiences.includes(audience)) return ok(`${arn} exists`);
  return error(
    `${arn} has the audiences ${provider.audiences.join(', ')}, but tokens have ${audience}`,
    addAudienceCommand(arn, audience),
  );
}

const addAudienceCommand = (arn: string, audience: string): string =>
  `aws iam add-client-id-to-open-id-connect-provider --open-id-connect-provider-arn ${arn} --client-id ${audience}`;

/**
 * The form of GitHub's subjects. Tokens of repositories that were created, renamed or transferred since 2026-07-15 have
 * subjects with the ids of owner and repository, unless their owner chose otherwise:
 * https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens (2026-11-25)
 */
export const subjectsCheck: Check = {
  name: 'publisher subjects',
  run: ({ settings: { publisher } }) => {
    if (publisher === undefined) return [ok('none needed: publisherSubjects is empty')];
    const { issuer, subjects, prunerSubjects } = publisher;
    if (issuer !== GITHUB) return [ok(`not checked: ${issuer} is not GitHub`)];
    return judgeSubjects([...subjects, ...prunerSubjects]);
  },
};

export function judgeSubjects(subjects: readonly string[]): Finding[] {
  const examples = subjects.filter((subject) => subject.includes('-your-organisation-'));
  if (examples.length > 0) {
    return [
      warning(
        `${examples.join(', ')} is the example of this package, so no token can assume the publisher role`,
        'set publisherSubjects to the subject of your repository (docs/ci.md)',
      ),
    ];
  }
  const parsed = subjects.map(parseSubject);
  const withIds = new Set(parsed.flatMap((one) => (one?.hasIds === true ? [one.repository] : [])));
  const without = parsed.flatMap((one) => (one?.hasIds === false ? [one.repository] : []));
  const old = [...new Set(without)].filter((repository) => !withIds.has(repository));
  if (old.length === 0) return [ok(subjects.join(', '))];
  return old.map((repository) =>
    warning(
      `the subject of ${repository} has no ids, but tokens of repositories that were created, renamed or transferred since 2026-07-15 have them: repo:OWNER@OWNER_ID/NAME@REPOSITORY_ID:...`,
      `gh api /repos/${repository}/actions/oidc/customization/sub shows the form of the tokens; set publisherSubjects (and prunerSubjects) to it, or list both forms`,
    ),
  );
}

/** The repository in a subject `repo:OWNER/NAME:...`; undefined for subjects of another form. */
function parseSubject(subject: string): { repository: string; hasIds: boolean } | undefined {
  const [, owner, ownerId, name, id] = /^repo:([^/:@]+)(@\d+)?\/([^/:@]+)(@\d+)?(?::|$)/.exec(subject) ?? [];
  if (owner === undefined) return undefined;
  return { repository: `${owner}/${name}`, hasIds: ownerId !== undefined && id !== undefined };
}
