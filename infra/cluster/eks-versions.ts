/** The newest version of the table. Renovate proposes a newer one, and a test then requires its row. */
export const NEWEST_EKS_VERSION = '1.36';

/**
 * Ends of the standard support of EKS: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, read
 * on 2026-11-22.
 */
export const STANDARD_SUPPORT_UNTIL: Readonly<Record<string, string>> = {
  '1.34': '2026-12-02',
  '1.35': '2027-03-27',
  '1.36': '2027-08-02',
};

const OLDEST_EKS_VERSION = '1.34';

export const WARN_DAYS = 60;
export const DAY_MS = 86_400_000;

const minor = (version: string): number => Number(version.split('.')[1]);

/** Why this program does not support a version; undefined if it does. Newer versions than those of the table are valid. */
export function versionFault(text: string): { reason: string; hint?: string } | undefined {
  if (!/^1\.\d{1,3}$/.test(text)) return { reason: 'not a Kubernetes version' };
  // YAML reads 1.40 as the number 1.4.
  if (/^1\.\d$/.test(text)) return { reason: 'too old', hint: `if you wrote 1.${text.slice(2)}0, put it in quotes` };
  return minor(text) < minor(OLDEST_EKS_VERSION) ? { reason: 'too old' } : undefined;
}

/** The versions that are allowed, in words. */
export const ALLOWED_VERSIONS = `a version of EKS from ${OLDEST_EKS_VERSION}, "${NEWEST_EKS_VERSION}"`;

/**
 * Returns a warning if the standard support of a version ends soon or has ended, or if its end is unknown.
 * @param today a parameter for tests
 */
export function supportWarning(version: string, today: Date): string | undefined {
  const end = STANDARD_SUPPORT_UNTIL[version];
  if (end === undefined) {
    return `this package was not tested with Kubernetes ${version} and does not know when its standard support ends: "aws eks describe-cluster-versions" lists the versions of EKS. The newest that this package knows is ${NEWEST_EKS_VERSION}`;
  }
  const daysLeft = Math.floor((Date.parse(end) - today.getTime()) / DAY_MS);
  if (daysLeft > WARN_DAYS) return undefined;
  return `standard support of Kubernetes ${version} ${daysLeft < 0 ? 'ended' : 'ends'} on ${end}, after which EKS upgrades the cluster by itself: set kubernetesVersion to the next version`;
}
