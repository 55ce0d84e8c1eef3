/** The Kubernetes versions that EKS offers and this program supports; compared with AWS's calendar on 2026-04-24. */
export const EKS_VERSIONS = {
  '1.34': { standardSupportUntil: '2026-12-02' },
  '1.35': { standardSupportUntil: '2027-03-27' },
} as const satisfies Record<string, { standardSupportUntil: string }>;

export type EksVersion = keyof typeof EKS_VERSIONS;

export const EKS_VERSION_NAMES = Object.keys(EKS_VERSIONS) as EksVersion[];

export const WARN_DAYS = 60;
export const DAY_MS = 86_400_000;

/**
 * Returns a warning if the standard support of a version ends soon or has ended. After its end the control plane
 * costs six times as much per hour.
 * @param today a parameter for tests
 */
export function supportWarning(version: EksVersion, today: Date): string | undefined {
  const { standardSupportUntil } = EKS_VERSIONS[version];
  const daysLeft = Math.floor((Date.parse(standardSupportUntil) - today.getTime()) / DAY_MS);
  if (daysLeft > WARN_DAYS) return undefined;
  const when = daysLeft < 0 ? 'ended' : 'ends';
  return `standard support of Kubernetes ${version} ${when} on ${standardSupportUntil}, after which the control plane costs six times as much: set kubernetesVersion to the next version`;
}
