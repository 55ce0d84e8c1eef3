/**
 * Whether a subject of OpenID Connect tokens names one repository: `repo:OWNER/NAME:...`. IAM compares it as a text with
 * wildcards, so `repo:acme*` also trusts `acme-evil`, and `*:environment:prod` every account of the issuer. A wildcard is
 * therefore allowed behind `KIND:OWNER/NAME:` only.
 */
export const isNarrowSubject = (subject: string): boolean =>
  /^[^*?\s]+$/.test(subject) || /^[^*?\s:]+:[^*?\s:/]+\/[^*?\s:]+:\S+$/.test(subject);
