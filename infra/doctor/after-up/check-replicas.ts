import { formatDuration } from '../../../src/core/format';
import type { Settings } from '../../settings';
import { IMAGE_PULL_SECONDS } from '../../triton/timeouts';
import { error, ok, warning, type Finding } from '../check';
import { getLeastReplicas, type AfterUpCheck } from './check';
import type { ImagePull, ReplicaPod, Serving } from './serving-cluster';

/** Whether as many replicas are ready as the stack has at least. */
export const replicasCheck: AfterUpCheck = {
  name: 'replicas',
  required: true,
  run: async ({ cluster, settings }) => judgeReplicas(await cluster.replicas(), settings, cluster.namespace),
};

/** @param pods without those that end */
export function judgeReplicas(
  pods: readonly ReplicaPod[],
  { triton }: Pick<Settings, 'triton'>,
  namespace: string,
): Finding[] {
  const needed = getLeastReplicas(triton);
  const ready = pods.filter((pod) => pod.ready);
  const found = `${ready.length} of ${needed} replicas are ready`;
  if (ready.length >= needed && ready.length === pods.length) return [ok(found)];
  const others = pods.filter((pod) => !pod.ready);
  const why = others.map(({ name, reason }) => `${name}${reason === undefined ? '' : ` (${reason})`}`);
  const fix = `kubectl --namespace ${namespace} describe pod ${others[0]?.name ?? ''}`.trim();
  const text = why.length === 0 ? found : `${found}; not ready: ${why.join(', ')}`;
  return [ready.length >= needed ? warning(text, fix) : error(text, fix)];
}

/** How long the pulls of Triton's image took. */
export const imagePullCheck: AfterUpCheck = {
  name: 'image pull',
  run: async ({ cluster }) => judgePulls(await cluster.pulls()),
};

/** @param pulls one for each replica */
export function judgePulls(pulls: readonly ImagePull[]): Finding[] {
  if (pulls.length === 0) return [ok('not known: no replica has an event of a pull, which EKS keeps for an hour')];
  return pulls.map(({ pod, seconds }) => {
    const found = `${pod}: ${formatDuration(seconds * 1000)}`;
    if (seconds <= IMAGE_PULL_SECONDS) return ok(found);
    return warning(
      `${found}, longer than the ${IMAGE_PULL_SECONDS} s in the time limits of the stack`,
      'copy the image to a registry near the nodes (docs/operations.md#images-from-another-registry), and lower diskGiB so that it is pulled to local NVMe storage (docs/infrastructure.md#local-storage)',
    );
  });
}

/** Whether Triton sees its GPUs, and its models use them. */
export const servingCheck: AfterUpCheck = {
  name: 'models on GPU',
  run: async ({ cluster, settings }) => {
    const found = [...(await cluster.serving())];
    if (found.length === 0) return [ok('not checked: no replica runs')];
    return found.map(([pod, serving]) => judgeServing(pod, serving, settings));
  },
};

/** @param pod that runs, ready or not */
export function judgeServing(
  pod: string,
  { gpus, models, problem }: Serving,
  { stack, triton: { gpusPerPod } }: Pick<Settings, 'stack' | 'triton'>,
): Finding {
  if (gpus !== undefined && gpus < gpusPerPod) {
    return error(
      `${pod}: Triton sees ${gpus} of ${gpusPerPod} GPU${gpusPerPod === 1 ? '' : 's'}, so its models compute on the CPU`,
      'docs/runbook.md#tritongpumissing has the causes',
    );
  }
  if (problem !== null) return error(`${pod}: ${problem}`, `npm run status -- --stack ${stack}`);
  if (models.length === 0) return warning(`${pod} serves no model`, `npm run sync-models -- --stack ${stack}`);
  const list = models.map(({ name, device }) => (device === null ? name : `${name} (${device})`)).join(', ');
  const isOnCpu = gpusPerPod > 0 && models.every(({ device }) => device === 'CPU' || device === null);
  if (!isOnCpu) return ok(`${pod}: ${list}`);
  return warning(
    `${pod}: no model uses the GPU: ${list}`,
    'remove KIND_CPU from their instance_group, or set gpusPerPod to 0',
  );
}
