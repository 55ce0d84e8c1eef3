import type { ScannerFinding } from './scanners';

/** A check that may fail. */
export interface Waiver {
  check: string;
  /** Part of the name of the resource. Default: all resources. */
  resource?: RegExp;
  reason: string;
}

/** Maximum number of waivers, for all scanners together. */
export const MOST_WAIVERS = 4;

export const WAIVERS: readonly Waiver[] = [
  {
    check: 'CKV_K8S_43',
    resource: /^Deployment\./,
    reason:
      'An image by its digest: people choose and compare versions of Triton by tag. Who wants a digest sets one (image: ...@sha256:...), which is then taken.',
  },
  {
    check: 'CKV_K8S_35',
    resource: /^Deployment\./,
    reason:
      'A secret in a file rather than in the environment: tritonserver takes its model-control key in a flag only, and Kubernetes fills in flags from the environment.',
  },
  {
    check: 'CKV_AWS_144',
    reason:
      'Replication to another region: models are made from what is in git and are published again, to any bucket, by sync-models or promote.',
  },
  {
    check: 'CKV_AWS_145',
    resource: /_access_logs$/,
    reason:
      'KMS for the bucket of access logs: S3 delivers them only to buckets that are encrypted with the keys of S3 itself.',
  },
];

export const isWaived = ({ check, resource }: ScannerFinding): boolean =>
  WAIVERS.some((waiver) => waiver.check === check && (waiver.resource?.test(resource) ?? true));
