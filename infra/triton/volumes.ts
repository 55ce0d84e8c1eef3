import type { input } from '@pulumi/kubernetes/types';
import type { TritonSettings } from './settings';

type Volume = input.core.v1.Volume;
type VolumeMount = input.core.v1.VolumeMount;

/** Where models from S3 are downloaded to, as in the Dockerfile. */
export const SCRATCH_DIRECTORY = '/var/cache/triton';

/** What the python backend and libraries write besides: an environment, compiled kernels. */
export const TEMPORARY_GIB = 2;

/** The writable folders of a container whose root file system is read-only. All of them go with the pod. */
export function volumes({ resources }: TritonSettings): Volume[] {
  return [
    { name: 'scratch', emptyDir: { sizeLimit: `${resources.scratchGiB}Gi` } },
    { name: 'tmp', emptyDir: { sizeLimit: `${TEMPORARY_GIB}Gi` } },
    // The container runtime gives 64 MiB, which a few pictures in flight fill.
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: `${resources.sharedMemoryGiB}Gi` } },
  ];
}

export const VOLUME_MOUNTS: VolumeMount[] = [
  { name: 'scratch', mountPath: SCRATCH_DIRECTORY },
  { name: 'tmp', mountPath: '/tmp' },
  { name: 'shared-memory', mountPath: '/dev/shm' },
];
