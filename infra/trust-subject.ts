/**
 * Whether a subject of OpenID Connect tokens is limited to one repository, `repo:OWNER/NAME:...`. IAM compares subjects
 * as texts with wildcards, so `repo:acme*` also trusts `acme-evil`, and `*:environment:prod` trusts every account of
 * the issuer. Therefore a wildcard is allowed only after `KIND:OWNER/NAME:`. Subjects of GitHub must name a repository
 * even without a wildcard, because `repo:acme` is a mistake: no token has it.
 */
export const isNarrowSubject = (subject: string): boolean =>
  /^(?!repo:)[^*?\s]+$/.test(subject) ||
  /^repo:[^*?\s:/]+\/[^*?\s:/]+$/.test(subject) ||
  /^[^*?\s:]+:[^*?\s:/]+\/[^*?\s:]+:\S+$/.test(subject);

const GITHUB = 'https://token.actions.githubusercontent.com';

/**
 * The subjects of GitHub that have no ids and no counterpart with ids. Repositories that were created, renamed or
 * transferred since 2026-07-15 have subjects with the ids of owner and repository, `repo:OWNER@ID/NAME@ID:...`
 * (https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens, read 2026-11-22).
 */
export function subjectsWithoutIds(issuer: string, subjects: readonly string[]): string[] {
  const ids = /^repo:([^@:/]+)@\d+\/([^@:/]+)@\d+(?=:|$)/;
  const covered = subjects.filter((subject) => ids.test(subject)).map((subject) => subject.replace(ids, 'repo:$1/$2'));
  const isOld = (subject: string): boolean =>
    subject.startsWith('repo:') && !ids.test(subject) && !covered.includes(subject);
  return issuer === GITHUB ? subjects.filter(isOld) : [];
}

/** Whether a subject is the example of the stack files. No token has it: names on GitHub do not begin with a hyphen. */
export const isExampleSubject = (subject: string): boolean => subject.includes('-your-organisation-');
