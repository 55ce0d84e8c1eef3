import { isIP } from 'node:net';
import type { BalancerTarget } from '../account';
import { error, ok, warning, type Finding } from '../check';
import { getLeastReplicas, type AfterUpCheck } from './check';

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
    // The load balancer of another controller has unhealthy targets by design: nodes without a pod of the controller.
    if (triton.exposure.kind === 'ingress' && triton.exposure.tls.kind === 'secret')
      return hosts.map((host) =>
        ok(`${host}: not checked, because the Ingress belongs to another controller than those of AWS`),
      );
    const fewest = getLeastReplicas(triton);
    return Promise.all(
      hosts.map(async (host) =>
        isIP(host) > 0
          ? ok(`${host}: not checked, because load balancers of AWS have host names`)
          : judgeTargets(host, await account.balancerTargets(host), fewest),
      ),
    );
  },
};

/** https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html (2026-11-26) */
const FAULTY: readonly string[] = ['unhealthy', 'unavailable', 'unused'];

/**
 * @param targets undefined if no load balancer has the address
 * @param fewest smallest number of replicas of the stack
 */
function judgeTargets(host: string, targets: readonly BalancerTarget[] | undefined, fewest: number): Finding {
  const fix =
    'docs/operations.md#how-clients-reach-the-replicas: networkPolicy, loadBalancerCidrs, and whether the replicas are ready; unused: subnets and listeners of the load balancer';
  if (targets === undefined) return warning(`${host} is not the address of a load balancer in this account and region`);
  if (targets.length === 0)
    return fewest === 0 ? ok(`${host} needs no targets for 0 replicas`) : error(`${host} has no targets`, fix);
  const describe = ({ address, state, reason }: BalancerTarget): string =>
    `${address} is ${state}${reason === undefined ? '' : ` (${reason})`}`;
  const healthy = targets.filter(({ state }) => state.startsWith('healthy'));
  const faulty = targets.filter(({ state }) => FAULTY.includes(state));
  const found = `${host}: ${healthy.length} of ${targets.length} targets are healthy`;
  if (faulty.length > 0)
    return (healthy.length > 0 ? warning : error)(`${found}: ${faulty.map(describe).join(', ')}`, fix);
  if (healthy.length > 0) return ok(found);
  return warning(
    `${host}: no target is healthy yet: ${targets.map(describe).join(', ')}`,
    'run the doctor again in some minutes',
  );
}
