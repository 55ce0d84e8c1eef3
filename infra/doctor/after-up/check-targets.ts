import type { BalancerTarget } from '../account';
import { error, ok, warning, type Finding } from '../check';
import type { AfterUpCheck } from './check';

/** Whether the load balancers send requests to the replicas. */
export const targetsCheck: AfterUpCheck = {
  name: 'load balancer',
  run: async ({ account, cluster, settings: { triton } }) => {
    if (triton.exposure.kind === 'cluster') return [ok('none needed: clients are in the cluster')];
    const hosts = await cluster.loadBalancers();
    if (hosts.length === 0) {
      return [
        error(
          `the load balancer of namespace ${cluster.namespace} has no address yet`,
          `kubectl --namespace ${cluster.namespace} describe services,ingresses`,
        ),
      ];
    }
    return Promise.all(hosts.map(async (host) => judgeTargets(host, await account.balancerTargets(host))));
  },
};

/** https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html (2026-11-26) */
const FAULTY: readonly string[] = ['unhealthy', 'unavailable'];

/** @param targets undefined if no load balancer has the address */
export function judgeTargets(host: string, targets: readonly BalancerTarget[] | undefined): Finding {
  const fix =
    'docs/operations.md#how-clients-reach-the-replicas: networkPolicy, loadBalancerCidrs, and whether the replicas are ready';
  if (targets === undefined) return warning(`${host} is not the address of a load balancer in this account and region`);
  const describe = ({ address, state, reason }: BalancerTarget): string =>
    `${address} is ${state}${reason === undefined ? '' : ` (${reason})`}`;
  const faulty = targets.filter(({ state }) => FAULTY.includes(state));
  if (faulty.length > 0) return error(`${host}: ${faulty.map(describe).join(', ')}`, fix);
  const healthy = targets.filter(({ state }) => state.startsWith('healthy'));
  if (healthy.length > 0) return ok(`${host}: ${healthy.length} of ${targets.length} targets are healthy`);
  if (targets.length === 0) return error(`${host} has no targets`, fix);
  return warning(
    `${host}: no target is healthy yet: ${targets.map(describe).join(', ')}`,
    'run the doctor again in some minutes',
  );
}
