import type { CoreV1Event, KubernetesObject, V1Condition, V1Node, V1Pod } from '@kubernetes/client-node';
import type { ControlPlane } from './control-plane';
import { until } from './wait-for';

/**
 * Waits like `until`. A timeout error describes the state of the cluster, because the test then deletes the cluster.
 * @param timeoutMs default: that of `until`
 */
export async function untilIn(
  plane: ControlPlane,
  what: string,
  check: () => Promise<boolean>,
  timeoutMs?: number,
): Promise<void> {
  try {
    await until(what, check, timeoutMs);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await clusterState(plane)}`, { cause: error });
  }
}

/** One line for each node, NodeClaim, pod and relevant event, and the last log lines of the cluster's programs. */
async function clusterState(plane: ControlPlane): Promise<string> {
  const nodes = (await plane.client.core.listNode()).items.map(nodeLine);
  const pods = (await plane.client.core.listPodForAllNamespaces()).items.map(podLine);
  const events = (await plane.client.core.listEventForAllNamespaces()).items.filter(isTelling).map(eventLine);
  return [...nodes, ...(await claimLines(plane)), ...pods, ...events, ...plane.processes.lastLines()].join('\n');
}

const ends = ({ metadata }: KubernetesObject): string =>
  metadata?.deletionTimestamp === undefined ? '' : ` ends from ${String(metadata.deletionTimestamp)}`;

const getConditions = (conditions: readonly V1Condition[] = []): string =>
  conditions.map(({ type, status, reason }) => `${type}=${status}(${reason})`).join(' ');

function nodeLine(node: V1Node): string {
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  const taints = (node.spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`).join(' ');
  return `node ${node.metadata?.name}: Ready=${ready} ${taints}${ends(node)}`;
}

function podLine(pod: V1Pod): string {
  const { metadata, spec, status } = pod;
  return `pod ${metadata?.namespace}/${metadata?.name}: ${status?.phase} on ${spec?.nodeName}${ends(pod)}`;
}

/** Whether an event may explain why something failed, or was done by another controller. */
const isTelling = ({ reason = '' }: CoreV1Event): boolean => /Blocked|Fail|Evict|Preempt|Terminat/.test(reason);

const eventLine = ({ involvedObject, reason, message, count }: CoreV1Event): string =>
  `event ${reason} of ${involvedObject.name}${count === undefined ? '' : ` x ${count}`}: ${message}`;

/** The conditions of Karpenter's NodeClaims. */
async function claimLines(plane: ControlPlane): Promise<string[]> {
  const list = await plane.client.objects.list('karpenter.sh/v1', 'NodeClaim').catch(() => undefined);
  const claims = (list?.items ?? []) as (KubernetesObject & { status?: { conditions?: V1Condition[] } })[];
  return claims.map((claim) => `${claim.metadata?.name}: ${getConditions(claim.status?.conditions)}${ends(claim)}`);
}
