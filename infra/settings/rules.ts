import { describe, type ProblemList } from '../../src/core/problems';
import { subnetRanges, zonesWithoutRange } from '../network/cidr';
import { regionFault, zonesElsewhere } from '../region';
import type { ConfigValues } from './config';

const FEWEST_ZONES = 2;
const MOST_ZONES = 6;

/** Whether the stack creates a network: neither the cluster nor its subnets exist. */
export const createsNetwork = (values: Pick<ConfigValues, 'existingCluster' | 'privateSubnetIds'>): boolean =>
  values.existingCluster === undefined && values.privateSubnetIds.length === 0;

/** Reports contradictions between settings of cluster, network, bucket and publisher. */
export function checkRules(values: ConfigValues, region: string | undefined, problems: ProblemList): void {
  if (values.existingCluster === undefined) checkCreatedCluster(values, problems);
  else checkExistingCluster(values, problems);
  if (createsNetwork(values)) checkNetwork(values, region, problems);
  checkRepository(values, problems);
}

function checkExistingCluster(values: ConfigValues, problems: ProblemList): void {
  const { kubeconfig, context, oidcProviderArn } = values.existingCluster ?? {};
  if (values.privateSubnetIds.length > 0) {
    problems.add('privateSubnetIds', 'is set, but the cluster exists already', { hint: 'remove it' });
  }
  if (kubeconfig === undefined && context === undefined) {
    problems.add('existingCluster.context', 'is missing, and kubeconfig too', {
      allowed: 'a context of your kubeconfig, or the setting kubeconfig',
      hint: 'the current context is never used by default, because it may belong to another cluster',
    });
  }
  if (oidcProviderArn === undefined && values.s3 === undefined) {
    problems.add(
      'existingCluster.oidcProviderArn',
      'is missing, but pods need it to assume a role that reads the bucket',
      {
        allowed: 'the ARN of the IAM provider of an EKS cluster, or the setting s3',
      },
    );
  }
}

function checkCreatedCluster(values: ConfigValues, problems: ProblemList): void {
  const both = values.clusterViewers.filter((arn) => values.clusterAdmins.includes(arn));
  if (both.length > 0) {
    problems.add('clusterViewers', `has ${both.join(', ')}, which clusterAdmins has too`, {
      hint: 'remove it from one of them, because a cluster has one access entry for a role',
    });
  }
  if (values.privateSubnetIds.length === 1) {
    problems.add('privateSubnetIds', 'has 1 subnet', {
      allowed: 'none, or at least two in different zones',
      hint: 'list the private subnets of the VPC',
    });
  }
}

function checkNetwork(values: ConfigValues, region: string | undefined, problems: ProblemList): void {
  const { vpcCidr, availabilityZones: zones } = values;
  checkZonesOfRegion('availabilityZones', zones, region, problems);
  const different = new Set(zones).size;
  if (different !== zones.length || different < FEWEST_ZONES || different > MOST_ZONES) {
    problems.add('availabilityZones', `has ${different} different zones`, {
      allowed: `from ${FEWEST_ZONES} to ${MOST_ZONES}, each once`,
      hint: '"aws ec2 describe-availability-zones" lists the zones of the region',
    });
  } else {
    try {
      subnetRanges(vpcCidr, zones);
    } catch (error) {
      problems.add('vpcCidr', `is ${vpcCidr}: ${(error as Error).message}`, {
        allowed: 'from /16 to /20, "10.0.0.0/16"',
      });
    }
  }
  const unplaced = zonesWithoutRange(zones);
  if (unplaced.length > 0) {
    problems.add('availabilityZones', `has ${unplaced.join(', ')}, for which the VPC has no range`, {
      allowed: 'zones whose letter is from a to g',
    });
  }
}

function checkRepository(values: ConfigValues, problems: ProblemList): void {
  if (values.modelRepository === undefined) {
    for (const key of ['s3', 'bucketKmsKeyArn'] as const) {
      if (values[key] === undefined) continue;
      problems.add(key, 'is set without modelRepository', {
        hint: 'set modelRepository to the place in the existing bucket, or remove it',
      });
    }
  } else if (values.bucketReaders.length > 0) {
    problems.add('bucketReaders', 'is set, but the policy of the existing bucket in modelRepository is not changed', {
      hint: 'remove it, and allow the roles in the policies of that bucket and its key',
    });
  }
  if (values.s3 !== undefined && values.publisherSubjects.length > 0) {
    problems.add('publisherSubjects', 'is set, but the bucket is not in AWS', { hint: 'remove it' });
  }
  if (values.prunerSubjects.length > 0 && values.publisherSubjects.length === 0) {
    problems.add('prunerSubjects', 'is set without publisherSubjects', { hint: 'set publisherSubjects too' });
  }
}

/** Reports zones that are not in the region of the stack. */
export function checkZonesOfRegion(
  field: string,
  zones: readonly string[],
  region: string | undefined,
  problems: ProblemList,
): void {
  const elsewhere = region === undefined ? [] : zonesElsewhere(zones, region);
  if (elsewhere.length === 0) return;
  problems.add(field, `has ${elsewhere.join(', ')}, but aws:region is ${region}`, {
    allowed: `zones of ${region}, "${region}a"`,
  });
}

/** Region of the stack. If nothing is in AWS, any name is allowed, because an S3 API other than AWS's may use any. */
export function checkedRegion(values: ConfigValues, region: string | undefined, problems: ProblemList): string {
  if (values.existingCluster !== undefined && values.s3 !== undefined) return region ?? 'us-east-1';
  if (region === undefined) {
    problems.add('aws:region', 'is missing', {
      allowed: 'an AWS region, "us-east-1"',
      // AWS_REGION differs between machines, and another region would mean other resources.
      hint: `pulumi config set aws:region ${process.env['AWS_REGION'] ?? 'us-east-1'}`,
    });
    return '';
  }
  const fault = regionFault(region, values.availabilityZones);
  if (fault !== undefined) {
    problems.add('aws:region', `is ${describe(region)}`, {
      allowed: 'an AWS region, "us-east-1"',
      hint: fault.meant === undefined ? undefined : `did you mean ${fault.meant}?`,
    });
  }
  return region;
}
