import { describe, type ProblemList } from '../../src/core/problems';
import { subnetRanges } from '../network/cidr';
import { CONFIG_FIELDS, type ConfigValues } from './config';
import { refuseUnused, type Unused } from './reader';

/** The form of a region's name. A list of regions would soon be incomplete. */
const REGION = /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}$/;

const FEWEST_ZONES = 2;
const MOST_ZONES = 6;

/** Whether the stack creates a network: neither the cluster nor its subnets exist. */
export const createsNetwork = (values: Pick<ConfigValues, 'existingCluster' | 'privateSubnetIds'>): boolean =>
  values.existingCluster === undefined && values.privateSubnetIds.length === 0;

const usesAws = ({ existingCluster, s3 }: ConfigValues): boolean => existingCluster === undefined || s3 === undefined;

/**
 * Settings without an effect, and when they have none. Not those of a created network or bucket, which a stack file may keep
 * for later.
 */
const UNUSED: (Unused<keyof ConfigValues> & { when: (values: ConfigValues) => boolean })[] = [
  {
    when: ({ existingCluster }) => existingCluster !== undefined,
    names: [
      'privateSubnetIds',
      'clusterName',
      'kubernetesVersion',
      'clusterAdmins',
      'clusterViewers',
      'publicAccessCidrs',
    ],
    because: 'the cluster exists already',
  },
  {
    when: ({ modelRepository }) => modelRepository !== undefined,
    names: ['bucketReaders'],
    because: 'the policy of the existing bucket in modelRepository is not changed',
    hint: 'remove it, and allow the roles in the policies of that bucket and its key',
  },
  {
    when: ({ modelRepository }) => modelRepository === undefined,
    names: ['s3', 'bucketKmsKeyArn'],
    because: 'modelRepository is empty, so a bucket is created',
    hint: 'set modelRepository to the place in the existing bucket, or remove it',
  },
  {
    when: ({ s3, modelRepository }) => s3 !== undefined && modelRepository !== undefined,
    names: ['publisherSubjects', 'bucketKmsKeyArn'],
    because: 'the bucket is not in AWS',
  },
  {
    when: ({ publisherSubjects }) => publisherSubjects.length === 0,
    names: ['prunerSubjects', 'publisherIssuer'],
    because: 'publisherSubjects is empty',
    hint: 'set publisherSubjects too, or remove it',
  },
];

/** Reports contradictions between settings of cluster, network, bucket and publisher. */
export function checkRules(values: ConfigValues, region: string | undefined, problems: ProblemList): void {
  for (const unused of UNUSED.filter(({ when }) => when(values))) refuseUnused(CONFIG_FIELDS, values, unused, problems);
  if (values.existingCluster === undefined) checkCreatedCluster(values, problems);
  else checkExistingCluster(values, problems);
  if (createsNetwork(values)) checkNetwork(values, region, problems);
}

function checkExistingCluster(values: ConfigValues, problems: ProblemList): void {
  const { kubeconfig, context, oidcProviderArn } = values.existingCluster ?? {};
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
}

/**
 * Names in AWS are triton-STACK-NAME-1234567 (project-config.ts). Those of buckets have no other characters, and those of roles
 * at most 64: triton-STACK-cluster-control-plane-1234567.
 */
export function checkStackName(stack: string, values: ConfigValues, problems: ProblemList): void {
  if (!usesAws(values) || /^[a-z0-9-]{1,27}$/.test(stack)) return;
  problems.add('', `the name of the stack is ${describe(stack)}, and names of resources in AWS contain it`, {
    allowed: 'at most 27 lower-case letters, digits and hyphens',
    hint: 'rename it: pulumi stack rename NAME',
  });
}

export function checkZonesOfRegion(
  field: string,
  zones: readonly string[],
  region: string | undefined,
  problems: ProblemList,
): void {
  // An invalid name of a region is reported by itself.
  if (region === undefined || !REGION.test(region)) return;
  const elsewhere = zones.filter((zone) => zone.slice(0, -1) !== region);
  if (elsewhere.length === 0) return;
  problems.add(field, `has ${elsewhere.join(', ')}, but aws:region is ${region}`, {
    allowed: `zones of ${region}, "${region}a"`,
  });
}

/** Region of the stack. If nothing is in AWS, any name is allowed, because an S3 API other than AWS's may use any. */
export function checkedRegion(values: ConfigValues, region: string | undefined, problems: ProblemList): string {
  if (!usesAws(values)) return region ?? 'us-east-1';
  if (region === undefined) {
    problems.add('aws:region', 'is missing', {
      allowed: 'an AWS region, "us-east-1"',
      // AWS_REGION differs between machines, and another region would mean other resources.
      hint: `pulumi config set aws:region ${process.env['AWS_REGION'] ?? 'us-east-1'}`,
    });
    return '';
  }
  if (!REGION.test(region)) {
    problems.add('aws:region', `is ${describe(region)}`, { allowed: 'an AWS region, "us-east-1"' });
  }
  return region;
}
