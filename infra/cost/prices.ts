import { findGiven, type GpuInstanceType, type PoolOfTypes } from '../gpu/gpu-instance-types';

/** Date on which these prices were read from AWS's price lists. Each link is the page of AWS with the same price. */
export const PRICES_AS_OF = '2026-08-17';

/** Region of these prices. In most other regions prices are higher, by up to a third. */
export const PRICES_REGION = 'us-east-1';

/** Prices of on-demand Linux instances with GPUs, in US dollars per hour: https://aws.amazon.com/ec2/pricing/on-demand */
export const GPU_INSTANCE_USD_PER_HOUR: Record<GpuInstanceType, number> = {
  'g4dn.xlarge': 0.526,
  'g4dn.2xlarge': 0.752,
  'g4dn.4xlarge': 1.204,
  'g4dn.8xlarge': 2.176,
  'g4dn.12xlarge': 3.912,
  'g4dn.16xlarge': 4.352,
  'g5.xlarge': 1.006,
  'g5.2xlarge': 1.212,
  'g5.4xlarge': 1.624,
  'g5.8xlarge': 2.448,
  'g5.12xlarge': 5.672,
  'g5.16xlarge': 4.096,
  'g5.24xlarge': 8.144,
  'g5.48xlarge': 16.288,
  'g6.xlarge': 0.8048,
  'g6.2xlarge': 0.9776,
  'g6.4xlarge': 1.3232,
  'g6.8xlarge': 2.0144,
  'g6.12xlarge': 4.6016,
  'g6.16xlarge': 3.3968,
  'g6.24xlarge': 6.6752,
  'g6.48xlarge': 13.3504,
  'g6e.xlarge': 1.861,
  'g6e.2xlarge': 2.24208,
  'g6e.4xlarge': 3.00424,
  'g6e.8xlarge': 4.52856,
  'g6e.12xlarge': 10.49264,
  'g6e.16xlarge': 7.57719,
  'g6e.24xlarge': 15.06559,
  'g6e.48xlarge': 30.13118,
  'p4d.24xlarge': 21.957642,
  'p4de.24xlarge': 27.44705,
  'p5.4xlarge': 6.88,
  'p5.48xlarge': 55.04,
  'p5en.48xlarge': 63.296,
  'p6-b200.48xlarge': 113.9328,
};

/** The price of a type of a pool, from the table or from `instanceTypeFacts`, in US dollars per hour. */
export function getPrice(pool: PoolOfTypes, type: string): number {
  const prices: Readonly<Record<string, number>> = GPU_INSTANCE_USD_PER_HOUR;
  const price = prices[type] ?? findGiven(pool, type)?.usdPerHour;
  if (price === undefined) throw new Error(`the price of ${type} is not known`);
  return price;
}

/** Other prices of a stack, in US dollars. */
export const USD = {
  /** EKS control plane, per hour: https://aws.amazon.com/eks/pricing */
  controlPlaneHour: 0.1,
  /** One system node (m7i.large), per hour: https://aws.amazon.com/ec2/pricing/on-demand */
  systemNodeHour: 0.1008,
  /** NAT gateway and its public address, each per hour: https://aws.amazon.com/vpc/pricing */
  natGatewayHour: 0.045,
  publicAddressHour: 0.005,
  /** Data that passes a NAT gateway, per GB: https://aws.amazon.com/vpc/pricing */
  natGB: 0.045,
  /** gp3 volume, per GiB and month: https://aws.amazon.com/ebs/pricing */
  diskGiBMonth: 0.08,
  /** Throughput of a gp3 volume above 125 MiB/s, per MiB/s and month: https://aws.amazon.com/ebs/pricing */
  diskThroughputMonth: 0.04,
  /** S3 Standard, per GiB and month: https://aws.amazon.com/s3/pricing */
  s3GiBMonth: 0.023,
  /** KMS key, per month: https://aws.amazon.com/kms/pricing */
  keyMonth: 1,
} as const;

/**
 * Fee of EKS Auto Mode as a share of the on-demand price, by the first letter of the family. It is the same for spot and
 * reserved instances. Since July 2026 it is 35% lower than the usual 12% for G, and 60% lower for P:
 * https://aws.amazon.com/about-aws/whats-new/2026/07/amazon-eks-auto-mode-gpu-price
 */
const AUTO_MODE_FEES: Readonly<Record<string, number>> = { g: 0.078, p: 0.048 };

export function autoModeFee(type: string): number {
  const fee = AUTO_MODE_FEES[type.charAt(0)];
  if (fee === undefined) throw new Error(`the fee of Auto Mode for ${type} is not known`);
  return fee;
}

/** Assumed price of spot instances as a share of the on-demand price. The real share varies from about 0.3 to 0.9. */
export const SPOT_SHARE = 0.5;

/** Hours of a month, as AWS counts. */
export const HOURS_PER_MONTH = 730;
