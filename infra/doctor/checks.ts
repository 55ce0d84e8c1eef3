import { getRelease, getVulnerabilities, TRITON_RELEASES } from '../../src/model/triton-releases';
import { instanceTypesCheck, quotasCheck } from './check-gpus';
import { networkQuotasCheck, ownAddressCheck, subnetsCheck } from './check-network';
import { error, ok, warning, type Check } from './doctor';

/** The account that the credentials belong to, against `aws:allowedAccountIds` of the stack file. */
const identityCheck: Check = {
  name: 'credentials',
  required: true,
  run: async ({ aws, allowedAccounts }) => {
    const { Account: id = '', Arn: arn } = await aws.identity();
    if (allowedAccounts.length === 0 || allowedAccounts.includes(id)) return [ok(`account ${id} as ${arn}`)];
    return [
      error(
        `account ${id} as ${arn}, but aws:allowedAccountIds has ${allowedAccounts.join(', ')}`,
        'set AWS_PROFILE (or aws:profile) to a profile of that account, or correct aws:allowedAccountIds',
      ),
    ];
  },
};

/** How long before the end of its standard support a version is reported. */
const WARN_MS = 60 * 86_400_000;

/** The Kubernetes version of the stack, against the versions that EKS offers today. */
const eksVersionCheck: Check = {
  name: 'EKS version',
  run: async ({ aws, settings: { existingCluster, kubernetesVersion: version } }) => {
    if (existingCluster !== undefined) return [];
    const offered = await aws.eksVersions();
    const inStandard = offered.filter(({ versionStatus }) => versionStatus === 'STANDARD_SUPPORT');
    const fix = `set kubernetesVersion to a version in standard support: ${inStandard.map((one) => one.clusterVersion).join(', ')}`;
    const found = offered.find(({ clusterVersion }) => clusterVersion === version);
    // https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (2026-11-25): cost of extended support
    if (found?.versionStatus === 'EXTENDED_SUPPORT') {
      const extended = `Kubernetes ${version} is in extended support, in which the control plane costs six times as much`;
      return [warning(extended, fix)];
    }
    if (found?.versionStatus !== 'STANDARD_SUPPORT') return [error(`EKS does not offer Kubernetes ${version}`, fix)];
    const { endOfStandardSupportDate: end } = found;
    const day = end?.toISOString().slice(0, 10);
    if ((end?.getTime() ?? Infinity) - Date.now() < WARN_MS) {
      return [warning(`standard support of Kubernetes ${version} ends on ${day}`, fix)];
    }
    return [ok(`Kubernetes ${version} is in standard support${day === undefined ? '' : ` until ${day}`}`)];
  },
};

/** The critical vulnerabilities of the release of Triton. The settings accept each of them, or they are refused before. */
const releaseCheck: Check = {
  name: 'Triton release',
  run: ({ settings }) => {
    const { image } = settings.triton;
    const release = getRelease(image);
    if (release === undefined) return [ok(`${image} names no release of Triton, so its vulnerabilities are unknown`)];
    const version = TRITON_RELEASES[release];
    const name = `Triton release ${release}${version === undefined ? '' : ` (${version})`}`;
    const faults = getVulnerabilities(release).map(({ id, cvss, kind, fixedIn, advisory }) =>
      warning(
        `${name} has ${id} (${kind}, CVSS ${cvss}), which acceptedVulnerabilities accepts`,
        `read ${advisory}, and set image to ${fixedIn} or newer`,
      ),
    );
    return faults.length > 0 ? faults : [ok(`${name} has no known critical vulnerability`)];
  },
};

/** All checks of `npm run doctor`, in the order of the report. */
export const CHECKS: readonly Check[] = [
  identityCheck,
  subnetsCheck,
  instanceTypesCheck,
  quotasCheck,
  networkQuotasCheck,
  eksVersionCheck,
  ownAddressCheck,
  releaseCheck,
];
