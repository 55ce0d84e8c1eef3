import type { V1Pod } from '@kubernetes/client-node';
import { isServing, type ControlPlane } from './control-plane';
import { retriedOnConflict, until } from './wait-for';

/** Watches the pods of a Deployment and records the minimum number of pods that were serving at the same time. */
export class ServingWatch {
  private readonly pods = new Map<string, V1Pod>();
  private fewest = Number.POSITIVE_INFINITY;
  private seen = 0;
  private stopWatching: () => void = () => undefined;
  private failure: unknown;

  private constructor() {
    // Use ServingWatch.start.
  }

  /** Starts to watch, beginning with the existing pods. */
  static async start(plane: ControlPlane, namespace: string, labelSelector: string): Promise<ServingWatch> {
    const { Watch } = await import('@kubernetes/client-node');
    const watch = new ServingWatch();
    const { items, metadata } = await plane.client.core.listNamespacedPod({ namespace, labelSelector });
    for (const pod of items) watch.pods.set(pod.metadata?.uid ?? '', pod);
    watch.count();
    const controller = await new Watch(plane.config).watch(
      `/api/v1/namespaces/${namespace}/pods`,
      { labelSelector, resourceVersion: metadata?.resourceVersion ?? '' },
      (phase, pod: V1Pod) => watch.note(phase, pod),
      (error) => {
        watch.failure = error;
      },
    );
    watch.stopWatching = () => controller.abort();
    return watch;
  }

  private note(phase: string, pod: V1Pod): void {
    const key = pod.metadata?.uid ?? '';
    if (phase === 'DELETED') this.pods.delete(key);
    else this.pods.set(key, pod);
    this.seen += 1;
    this.count();
  }

  private count(): void {
    this.fewest = Math.min(this.fewest, [...this.pods.values()].filter(isServing).length);
  }

  /** Ends the watch. @returns the minimum of serving pods, and the number of observed changes */
  end(): { fewest: number; changes: number } {
    this.stopWatching();
    if (this.failure !== undefined && (this.failure as Error).name !== 'AbortError') throw this.failure as Error;
    return { fewest: this.fewest, changes: this.seen };
  }
}

const DRAIN_MS = 120_000;
const TOO_MANY_REQUESTS = 429;

/**
 * Drains a node like `kubectl drain`: cordons the node, and retries evictions while the disruption budget refuses them.
 * @returns the number of refused evictions
 */
export async function drain(plane: ControlPlane, node: string): Promise<number> {
  const { core } = plane.client;
  let refused = 0;
  await cordon(plane, node, true);
  await until(
    `node ${node} is drained`,
    async () => {
      const { items } = await core.listPodForAllNamespaces({ fieldSelector: `spec.nodeName=${node}` });
      for (const { metadata } of items) {
        if (metadata?.deletionTimestamp !== undefined) continue;
        const { name = '', namespace = '' } = metadata ?? {};
        try {
          await core.createNamespacedPodEviction({ name, namespace, body: { metadata: { name, namespace } } });
        } catch (error) {
          if ((error as { code?: number }).code !== TOO_MANY_REQUESTS) throw error;
          refused += 1;
        }
      }
      return items.length === 0;
    },
    DRAIN_MS,
  );
  return refused;
}

/** Forbids or allows new pods on a node. */
export async function cordon(plane: ControlPlane, name: string, unschedulable: boolean): Promise<void> {
  await retriedOnConflict(async () => {
    const body = await plane.client.core.readNode({ name });
    Object.assign((body.spec ??= {}), { unschedulable });
    await plane.client.core.replaceNode({ name, body });
  });
}
