/** The newest version that was tested. Renovate proposes a newer one. */
export const NEWEST_EKS_VERSION = '1.36';

const OLDEST_EKS_VERSION = '1.34';

const minor = (version: string): number => Number(version.split('.')[1]);

/** Why this program does not support a version; undefined if it does. Newer versions are valid. */
export function versionFault(text: string): { reason: string; hint?: string } | undefined {
  if (!/^1\.\d{1,3}$/.test(text)) return { reason: 'not a Kubernetes version' };
  // YAML reads 1.40 as the number 1.4.
  if (/^1\.\d$/.test(text)) return { reason: 'too old', hint: `if you wrote 1.${text.slice(2)}0, put it in quotes` };
  return minor(text) < minor(OLDEST_EKS_VERSION) ? { reason: 'too old' } : undefined;
}

export const ALLOWED_VERSIONS = `a version of EKS from ${OLDEST_EKS_VERSION}, "${NEWEST_EKS_VERSION}"`;
