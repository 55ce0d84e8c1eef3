import type { ControlPlane } from './control-plane';
import type { Scratch } from './temp-dir';

const STATUS = { loadBalancer: { ingress: [{ hostname: 'lb.example.com' }] } };

interface Balanced {
  metadata?: { name?: string; namespace?: string };
  status?: { loadBalancer?: { ingress?: unknown } };
}

/** Gives every Ingress and every Service of type LoadBalancer an address, in place of their controllers. */
export function serveLoadBalancers({ client: { core, networking } }: ControlPlane, scratch: Scratch): void {
  const isNew = ({ status }: Balanced): boolean => status?.loadBalancer?.ingress === undefined;
  const withAddress = <T extends Balanced>(object: T): { name: string; namespace: string; body: T } => ({
    name: object.metadata?.name ?? '',
    namespace: object.metadata?.namespace ?? '',
    body: Object.assign(object, { status: STATUS }),
  });
  const serve = async (): Promise<void> => {
    const services = (await core.listServiceForAllNamespaces()).items;
    for (const service of services.filter((one) => one.spec?.type === 'LoadBalancer' && isNew(one)))
      await core.replaceNamespacedServiceStatus(withAddress(service));
    for (const ingress of (await networking.listIngressForAllNamespaces()).items.filter(isNew))
      await networking.replaceNamespacedIngressStatus(withAddress(ingress));
  };
  // If an object changed meanwhile, the next round repeats this.
  const timer = setInterval(() => void serve().catch(() => undefined), 500);
  scratch.defer(() => clearInterval(timer));
}
