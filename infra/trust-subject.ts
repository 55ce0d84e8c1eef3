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

/** Whether a subject is the example of the stack files. No token has it: names on GitHub do not begin with a hyphen. */
export const isExampleSubject = (subject: string): boolean => subject.includes('-your-organisation-');
