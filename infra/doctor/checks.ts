import { headKey, parseLocation } from '../../src/release/location';
import { isOtherRegion } from '../../src/s3/errors';
import { S3Error } from '../../src/s3/store';
import { DAY_MS, WARN_DAYS } from '../cluster/eks-versions';
import { isExampleSubject, subjectsWithoutIds } from '../trust-subject';
import { instanceTypesCheck, quotasCheck } from './check-gpus';
import { imagesCheck } from './check-images';
import { networkQuotasCheck, ownAddressCheck, subnetsCheck, zonesCheck } from './check-network';
import { error, ok, warning, type Check, type Finding } from './doctor';

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

const regionCheck: Check = {
  name: 'region',
  run: async ({ aws, settings: { region } }) => {
    const status = await aws.regionStatus();
    if (status === undefined) return [error(`AWS has no region ${region}`, 'correct aws:region in the stack file')];
    // https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Region.html (2026-11-25)
    if (status !== 'not-opted-in') return [ok(`${region} is enabled`)];
    const found = `${region} is not enabled in this account`;
    return [error(found, `aws account enable-region --region-name ${region}`)];
  },
};

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
    if ((end?.getTime() ?? Infinity) - Date.now() < WARN_DAYS * DAY_MS) {
      return [warning(`standard support of Kubernetes ${version} ends on ${day}`, fix)];
    }
    return [ok(`Kubernetes ${version} is in standard support${day === undefined ? '' : ` until ${day}`}`)];
  },
};

/** The form of GitHub's subjects (trust-subject.ts). */
const subjectsCheck: Check = {
  name: 'publisher subjects',
  run: ({ settings }) =>
    (['publisherSubjects', 'prunerSubjects'] as const)
      .filter((key) => settings[key].length > 0)
      .map((key) => judgeSubjects(key, settings.publisherIssuer, settings[key])),
};

/** @param setting the key of the stack file that has the subjects */
function judgeSubjects(setting: string, issuer: string, subjects: readonly string[]): Finding {
  const examples = subjects.filter(isExampleSubject);
  if (examples.length > 0) {
    return warning(
      `${setting}: ${examples.join(', ')} is the example of this package, which no job has`,
      `set ${setting} to the subject of a job of your repository (docs/ci.md)`,
    );
  }
  const old = subjectsWithoutIds(issuer, subjects);
  if (old.length === 0) return ok(`${setting}: ${subjects.join(', ')}`);
  return warning(
    `${setting}: ${old.join(', ')} has no ids of owner and repository, but tokens of repositories that were created, renamed or transferred since 2026-07-15 have them: repo:OWNER@ID/NAME@ID:...`,
    `"gh api /repos/OWNER/NAME/actions/oidc/customization/sub" shows the form of the tokens; set ${setting} to it, or list both forms`,
  );
}

/** The existing bucket of the models. */
const bucketCheck: Check = {
  name: 'bucket',
  run: async ({ aws, settings: { modelRepository, region, s3 } }) => {
    if (modelRepository === undefined || s3 !== undefined) return [];
    const location = parseLocation(modelRepository);
    const { bucket } = location;
    try {
      await aws.readBucket(bucket, region, headKey(location));
      return [ok(`${bucket} exists, and can be listed`)];
    } catch (cause) {
      if (!(cause instanceof S3Error)) throw cause;
      if (cause.code === 'NoSuchBucket') {
        const fix = `correct modelRepository, or: aws s3 mb s3://${bucket} --region ${region}`;
        return [error(`${bucket} does not exist`, fix)];
      }
      if (!isOtherRegion(cause)) throw cause;
      return [
        error(
          `${bucket} is in ${cause.region}, but the stack file has ${region}`,
          `set modelRepository to a bucket in ${region}, or aws:region to ${cause.region}`,
        ),
      ];
    }
  },
};

/** All checks of `npm run doctor`, in the order of the report. */
export const CHECKS: readonly Check[] = [
  identityCheck,
  regionCheck,
  zonesCheck,
  subnetsCheck,
  instanceTypesCheck,
  quotasCheck,
  networkQuotasCheck,
  eksVersionCheck,
  ownAddressCheck,
  subjectsCheck,
  bucketCheck,
  imagesCheck,
];
