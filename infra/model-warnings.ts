import { existsSync } from 'node:fs';
import {
  findUnsupported,
  formatGiB,
  getRelease,
  gpuMemoryFault,
  MAIN_MEMORY_HINT,
  mainMemoryFault,
  readRepository,
  serverMemory,
  type RepositoryModel,
  type ServerMemory,
} from '../src/model';
import { getGpuMemory, getKnownTypes } from './gpu/gpu-instance-types';
import type { GpuNodePoolSettings, Settings } from './settings/types';
import { modelDiskBytes } from './triton/settings';

/**
 * Returns warnings if the models of this checkout do not fit into the pods of a stack, onto its GPUs or onto its disks, if
 * its release of Triton cannot serve them, or if their batches disturb its autoscaler. Models that were published from elsewhere
 * are unknown here.
 * @param repository folder of the models. A missing folder, or models that are not traced yet, give no warnings
 */
export async function modelWarnings(settings: Settings, repository: string): Promise<string[]> {
  if (!existsSync(repository)) return [];
  const { triton, gpuNodePools } = settings;
  const hasGpu = triton.gpusPerPod > 0;
  const { models } = await readRepository(repository);
  const memory = serverMemory(models, hasGpu);
  const { memoryGiB } = triton.resources;
  const fault = mainMemoryFault(memory, memoryGiB);
  return [
    ...(fault === undefined ? [] : [`${fault}: ${MAIN_MEMORY_HINT}`]),
    ...diskWarning(settings, memory),
    ...models.flatMap((model) => delayWarning(settings, model) ?? []),
    ...models.flatMap((model) => releaseWarnings(settings, model)),
    ...(hasGpu ? gpuNodePools.flatMap((pool) => gpuWarning(pool, memory) ?? []) : []),
  ];
}

/**
 * Triton counts the time that a request waits for others of its batch as time in the queue, also without load. From half
 * of the goal on, the signal of the autoscaler is at two thirds of its goal or above
 * (infra/triton/monitoring/load-signals.ts), so it removes few pods or none.
 */
function delayWarning({ triton }: Settings, { name, config }: RepositoryModel): string | undefined {
  if (triton.autoscaling === undefined) return undefined;
  const { queueMilliseconds } = triton.autoscaling;
  const { dynamic_batching: dynamic, sequence_batching: sequence } = config;
  const batching = [dynamic, sequence?.direct, sequence?.oldest];
  const delay = Math.max(...batching.map((one) => Number(one?.max_queue_delay_microseconds ?? 0)));
  if (delay < 500 * queueMilliseconds) return undefined;
  return `requests to ${name} wait up to ${delay / 1000} ms for others of their batch (max_queue_delay_microseconds), which counts as time in the queue, and autoscaling.queueMilliseconds is ${queueMilliseconds}, so the autoscaler keeps or adds pods without load: lower the delay, or set autoscaling.queueMilliseconds to more than ${delay / 500}`;
}

function releaseWarnings({ triton }: Settings, model: RepositoryModel): string[] {
  const release = getRelease(triton.image);
  if (release === undefined) return [];
  return findUnsupported(model, release).map(
    ({ field, message, allowed, hint }) => `${model.name}: ${field} ${message}; allowed: ${allowed}: ${hint}`,
  );
}

/** The disk of a pod holds the release that the pod returns to and the one that is published, whose files may all differ. */
function diskWarning({ triton }: Settings, { models }: ServerMemory): string[] {
  const { scratchGiB } = triton.resources;
  const bytes = 2 * models.reduce((sum, { weights }) => sum + weights, 0);
  if (bytes <= modelDiskBytes(scratchGiB)) return [];
  return [
    `two releases of the models need ${formatGiB(bytes)} of disk, but resources.scratchGiB is ${scratchGiB}, so pods would refuse a release in which all files change: raise resources.scratchGiB`,
  ];
}

/** Checks the smallest GPU of a pool, because any replica may get it. */
function gpuWarning(pool: GpuNodePoolSettings, memory: ServerMemory): string | undefined {
  const [facts] = getKnownTypes(pool.instanceTypes).sort((a, b) => getGpuMemory(a) - getGpuMemory(b));
  if (facts === undefined) return undefined;
  const fault = gpuMemoryFault(memory, `${facts.type} (${facts.gpu}) of pool ${pool.name}`, getGpuMemory(facts));
  if (fault === undefined) return undefined;
  return `${fault}: set instanceTypes with larger GPUs, or lower instance_group.count or max_batch_size of the models`;
}
