/**
 * Whether a subject of OpenID Connect tokens has no wildcard, and names a repository if it is one of GitHub. IAM takes
 * wildcards in any position: `repo:acme*` also trusts `acme-evil`, and `repo:acme/serving:*` trusts the code of every pull
 * request. It replaces policy variables, `${aws:username}`. `repo:acme` is a mistake, because no token has this subject.
 */
export const isExactSubject = (subject: string): boolean =>
  /^(?!repo:)[^*?$\s]+$/.test(subject) || /^repo:[^*?$\s:/]+\/[^*?$\s:/]+(:[^*?$\s]+)?$/.test(subject);

export const GITHUB_ISSUER = 'https://token.actions.githubusercontent.com';

type SubjectSettings = Record<'publisherSubjects' | 'prunerSubjects', string[]> & { publisherIssuer: string };

/** Subjects that no job has, and what to do about them. */
export function findSubjectFaults(settings: SubjectSettings): { problem: string; fix: string }[] {
  return (['publisherSubjects', 'prunerSubjects'] as const).flatMap((key) => {
    if (settings[key].some(isExampleSubject)) {
      const fix = `set ${key} to the subject of a job of your repository (docs/ci.md)`;
      return { problem: `${key} names -your-organisation-, which is an example value that no job has`, fix };
    }
    const old = subjectsWithoutIds(settings.publisherIssuer, settings[key]);
    if (old.length === 0) return [];
    return {
      problem: `${key} has ${old.join(', ')} without the ids of owner and repository. AWS rejects the tokens of a repository that was created, renamed or transferred since 2026-07-15, because their subjects are repo:OWNER@ID/NAME@ID:...`,
      fix: `"gh api /repos/OWNER/NAME/actions/oidc/customization/sub" shows the form of the tokens; set ${key} to it, or list both forms`,
    };
  });
}

/**
 * The subjects of GitHub that have no ids and no counterpart with ids. Repositories that were created, renamed or
 * transferred since 2026-07-15 have subjects with the ids of owner and repository, `repo:OWNER@ID/NAME@ID:...`
 * (https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens, read 2026-11-22).
 */
function subjectsWithoutIds(issuer: string, subjects: readonly string[]): string[] {
  const ids = /^repo:([^@:/]+)@\d+\/([^@:/]+)@\d+(?=:|$)/;
  const covered = subjects.filter((subject) => ids.test(subject)).map((subject) => subject.replace(ids, 'repo:$1/$2'));
  const isOld = (subject: string): boolean =>
    subject.startsWith('repo:') && !ids.test(subject) && !covered.includes(subject);
  return issuer === GITHUB_ISSUER ? subjects.filter(isOld) : [];
}

/** Whether a subject is the example of the stack files. No token has it: names on GitHub do not begin with a hyphen. */
export const isExampleSubject = (subject: string): boolean => subject.includes('-your-organisation-');
