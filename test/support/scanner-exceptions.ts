import type { ScannerFinding } from './scanners';

/** A check that may fail. */
export interface ScannerException {
  check: string;
  /** Part of the name of the resource. Default: all resources. */
  resource?: RegExp;
  reason: string;
}

/** Maximum number of exceptions, for all scanners together. */
export const MAXIMUM_EXCEPTIONS = 5;

export const EXCEPTIONS: readonly ScannerException[] = [
  {
    check: 'CKV_K8S_43',
    resource: /^Deployment\./,
    reason:
      'An image by its digest: people choose and compare versions of Triton by tag. The setting `image` also accepts a digest (...@sha256:...).',
  },
  {
    check: 'container-image-pull-policy',
    resource: /^Deployment /,
    reason:
      'Always pulling an image: the image of the agent has a digest, so a node that has it needs no registry, and a pod starts while the registry is away.',
  },
  {
    check: 'CKV_AWS_144',
    reason:
      'Replication to another region: models are built from git, and sync-models or promote can publish them again to any bucket.',
  },
  {
    check: 'CKV_AWS_339',
    reason:
      'A supported version of Kubernetes: checkov 3.3.30, the newest one in November 2026, does not know 1.36 yet.',
  },
  {
    check: 'CKV_AWS_145',
    resource: /_access_logs$/,
    reason:
      'KMS for the bucket of access logs: S3 delivers them only to buckets that are encrypted with the keys of S3 itself.',
  },
];

export const isException = ({ check, resource }: ScannerFinding): boolean =>
  EXCEPTIONS.some((exception) => exception.check === check && (exception.resource?.test(resource) ?? true));
