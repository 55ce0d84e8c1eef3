import type { ProblemList } from '../../src/core/problems';
import { subnetRanges, zonesWithoutRange } from '../network/cidr';
import { awsIdentity } from './aws-identity';
import type { ConfigValues } from './config';
import type { ConfigSource } from './source';
import type { ClusterSettings, NetworkSettings } from './types';
import { checkZonesOfRegion } from './zones';

const FEWEST_ZONES = 2;
const MOST_ZONES = 6;

/** Reads the settings of the cluster, and of the network if the cluster is created. */
export function clusterSettings(
  values: ConfigValues,
  { stack, region, identity }: ConfigSource,
  problems: ProblemList,
): ClusterSettings {
  if (values.cluster === 'existing') {
    if (values.vpcId !== undefined) {
      problems.add('vpcId', 'is set, but the cluster exists already', { hint: 'remove it' });
    }
    if (values.kubeconfig === undefined && values.kubeContext === undefined) {
      problems.add('kubeContext', 'is missing, and kubeconfig too', {
        allowed: 'a context of your kubeconfig, or the setting kubeconfig',
        hint: 'the current context is never used by default, because it may belong to another cluster',
      });
    }
    if (values.oidcProviderArn === undefined && values.s3Endpoint === undefined) {
      problems.add('oidcProviderArn', 'is missing, but pods need it to assume a role that reads the bucket', {
        allowed: 'the ARN of the IAM provider of an EKS cluster, or s3Endpoint with its keys',
      });
    }
    return {
      kind: 'existing',
      kubeconfig: values.kubeconfig,
      context: values.kubeContext,
      identifier: values.clusterIdentifier,
      oidcProviderArn: values.oidcProviderArn,
    };
  }
  for (const key of ['kubeconfig', 'kubeContext', 'clusterIdentifier', 'oidcProviderArn'] as const) {
    if (values[key] !== undefined) {
      problems.add(key, 'is set, but this stack creates a cluster', { hint: 'set cluster to existing, or remove it' });
    }
  }
  const both = values.clusterViewers.filter((arn) => values.clusterAdmins.includes(arn));
  if (both.length > 0) {
    problems.add('clusterViewers', `has ${both.join(', ')}, which clusterAdmins has too`, {
      hint: 'remove it from one of them, because a cluster has one access entry for a role',
    });
  }
  return {
    kind: 'create',
    name: values.clusterName ?? `triton-${stack}`,
    version: values.kubernetesVersion,
    support: values.kubernetesSupport,
    autoMode: values.autoMode,
    systemNodes: { instanceTypes: values.systemInstanceTypes, count: values.systemNodes },
    admins: values.clusterAdmins,
    viewers: values.clusterViewers,
    publicAccessCidrs: values.publicAccessCidrs,
    logDays: values.controlPlaneLogDays,
    identity: awsIdentity(identity, problems),
    network: networkSettings(values, region, problems),
  };
}

function networkSettings(values: ConfigValues, region: string | undefined, problems: ProblemList): NetworkSettings {
  const { vpcId, privateSubnetIds, vpcCidr: cidr, availabilityZones: zones } = values;
  if (vpcId !== undefined) {
    if (privateSubnetIds.length < FEWEST_ZONES) {
      problems.add('privateSubnetIds', `has ${privateSubnetIds.length} subnets`, {
        allowed: 'at least two, in different zones',
        hint: 'list the private subnets of the VPC',
      });
    }
    return { kind: 'existing', vpcId, privateSubnetIds };
  }
  if (privateSubnetIds.length > 0) {
    problems.add('privateSubnetIds', 'is set without vpcId', { hint: 'set vpcId too, or remove it' });
  }
  checkZonesOfRegion('availabilityZones', zones, region, problems);
  const different = new Set(zones).size;
  if (different !== zones.length || different < FEWEST_ZONES || different > MOST_ZONES) {
    problems.add('availabilityZones', `has ${different} different zones`, {
      allowed: `from ${FEWEST_ZONES} to ${MOST_ZONES}, each once`,
      hint: '"aws ec2 describe-availability-zones" lists the zones of the region',
    });
  } else {
    try {
      subnetRanges(cidr, zones);
    } catch (error) {
      problems.add('vpcCidr', `is ${cidr}: ${(error as Error).message}`, { allowed: 'from /16 to /20, "10.0.0.0/16"' });
    }
  }
  const unplaced = zonesWithoutRange(zones);
  if (unplaced.length > 0) {
    problems.add('availabilityZones', `has ${unplaced.join(', ')}, for which the VPC has no range`, {
      allowed: 'zones whose letter is from a to g',
    });
  }
  const { natGateways, flowLogDays } = values;
  return { kind: 'create', cidr, zones, natGateways, flowLogDays };
}
