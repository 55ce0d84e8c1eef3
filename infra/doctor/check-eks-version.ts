import { DAY_MS, supportWarning, WARN_DAYS } from '../cluster/eks-versions';
import { MissingRightError, type OfferedVersion } from './account';
import { error, ok, warning, type Check, type Finding } from './check';

/** The Kubernetes version of the stack, against the versions that EKS offers today. */
export const eksVersionCheck: Check = {
  name: 'EKS version',
  run: async ({ account, settings: { cluster }, today }) => {
    if (cluster.kind === 'existing') return [ok('none needed: the stack uses an existing cluster')];
    const { version } = cluster;
    try {
      return [judgeVersion(version, await account.eksVersions(), today)];
    } catch (cause) {
      if (!(cause instanceof MissingRightError)) throw cause;
      const known = supportWarning(version, cluster.support, today) ?? `${version} is in standard support`;
      return [warning(`not checked: ${cause.message}. By the table of this package, ${known}`, cause.hint)];
    }
  },
};

export function judgeVersion(version: string, offered: readonly OfferedVersion[], today: Date): Finding {
  const inStandard = offered.filter(({ support }) => support === 'standard').map((one) => one.version);
  const fix = `set kubernetesVersion to a version in standard support: ${inStandard.join(', ')}`;
  const found = offered.find((one) => one.version === version);
  if (found === undefined || found.support === 'none') return error(`EKS does not offer Kubernetes ${version}`, fix);
  // https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (2026-11-25): cost of extended support
  if (found.support === 'extended') {
    return warning(
      `Kubernetes ${version} is in extended support, in which the control plane costs six times as much`,
      fix,
    );
  }
  const { standardSupportUntil: end } = found;
  if (end === undefined) return ok(`Kubernetes ${version} is in standard support`);
  const day = end.toISOString().slice(0, 10);
  const daysLeft = (end.getTime() - today.getTime()) / DAY_MS;
  return daysLeft < WARN_DAYS
    ? warning(`standard support of Kubernetes ${version} ends on ${day}`, fix)
    : ok(`Kubernetes ${version} is in standard support until ${day}`);
}
