import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KubernetesObject, V1Node } from '@kubernetes/client-node';
import { loadAll } from 'js-yaml';
import { GPU_INSTANCE_TYPES, type GpuInstanceType } from '../../infra/gpu/gpu-instance-types';
import { isHealthy } from '../../src/local/process/health-check';
import { freePorts } from '../../src/local/process/ports';
import { ensureKarpenter, karpenterDefinitions } from '../../tools/toolchain/kubernetes';
import type { ControlPlane } from './control-plane';
import type { Scratch } from './temp-dir';
import { until } from './wait-for';

export type CapacityType = 'spot' | 'on-demand';

/** Replaces the EC2NodeClass or the NodeClass of Auto Mode on AWS. */
export const KWOK_NODE_CLASS = { group: 'karpenter.kwok.sh', kind: 'KWOKNodeClass', name: 'test' } as const;

/** Price per vCPU in the simulated cloud. Spot costs a third. */
const PRICES: Record<CapacityType, number> = { spot: 1 / 3, 'on-demand': 1 };

export interface KarpenterOptions {
  instanceTypes: readonly GpuInstanceType[];
  zones: readonly string[];
}

/** A real Karpenter whose cloud offers the given machines and starts simulated nodes. */
export class Karpenter {
  private constructor(private readonly outOfCapacity: string) {}

  static async start(plane: ControlPlane, options: KarpenterOptions): Promise<Karpenter> {
    const program = await ensureKarpenter();
    const { objects } = plane.client;
    await defineKarpenterKinds(plane);
    const nodeClass = { apiVersion: 'karpenter.kwok.sh/v1alpha1', kind: 'KWOKNodeClass', metadata: { name: 'test' } };
    await until('the kinds of Karpenter are served', async () => {
      await objects.create({ ...nodeClass, spec: {} } as KubernetesObject);
      return true;
    });

    const { directory } = plane.processes;
    const [instanceTypes, outOfCapacity] = ['instance-types.json', 'out-of-capacity'].map((name) =>
      join(directory, name),
    ) as [string, string];
    writeFileSync(instanceTypes, JSON.stringify(machines(options)));
    writeFileSync(outOfCapacity, '');
    const [metrics, health] = (await freePorts(2)) as [number, number];
    const env = {
      ...process.env,
      KUBECONFIG: plane.access.kubeconfigFile(),
      OUT_OF_CAPACITY: outOfCapacity,
      SYSTEM_NAMESPACE: 'kube-system',
    };
    const args = [
      '--disable-leader-election=true',
      `--health-probe-port=${health}`,
      `--instance-types-file-path=${instanceTypes}`,
      `--metrics-port=${metrics}`,
    ];
    await plane.processes.start({ name: 'karpenter', command: program, args, env }, () =>
      isHealthy(`http://127.0.0.1:${health}/healthz`),
    );
    return new Karpenter(outOfCapacity);
  }

  /** Makes these capacity types unavailable and all others available, from now on. */
  runOut(...types: CapacityType[]): void {
    writeFileSync(this.outOfCapacity, types.join('\n'));
  }
}

/** How long the last nodes of a pool may stay. Usually a minute: Karpenter removes one after the other, after 15 s each. */
export const NODES_GONE_MS = 180_000;

/** The nodes that Karpenter created for the pool `gpu` of a stack. */
export const gpuNodes = async ({ client }: ControlPlane): Promise<V1Node[]> =>
  (await client.core.listNode({ labelSelector: 'triton-serving/gpu-pool=gpu' })).items;

/** Creates NodePool and the other kinds of Karpenter in the API server, with Karpenter's own definitions. */
export async function defineKarpenterKinds(plane: ControlPlane): Promise<void> {
  for (const file of await karpenterDefinitions()) {
    for (const definition of loadAll(readFileSync(file, 'utf8'))) {
      await plane.access.define(definition as object);
    }
  }
}

/** Marks a NodePool or NodeClass ready or not, in place of the controllers of EKS Auto Mode. */
export async function markReady(plane: ControlPlane, object: KubernetesObject, status = true): Promise<void> {
  const { CustomObjectsApi } = await import('@kubernetes/client-node');
  const [group = '', version = ''] = object.apiVersion?.split('/') ?? [];
  const now = new Date().toISOString();
  const ready = {
    type: 'Ready',
    status: status ? 'True' : 'False',
    reason: 'Test',
    message: '',
    lastTransitionTime: now,
  };
  await plane.config.makeApiClient(CustomObjectsApi).replaceClusterCustomObjectStatus({
    group,
    version,
    plural: object.kind === 'NodePool' ? 'nodepools' : 'nodeclasses',
    name: object.metadata?.name ?? '',
    body: { ...object, status: { conditions: [ready] } },
  });
}

/** Marks every NodePool and NodeClass ready that appears, until the scratch folder is cleaned. */
export function keepPoolsReady(plane: ControlPlane, scratch: Scratch): void {
  const isReady = (object: object): boolean =>
    (object as { status?: { conditions?: object[] } }).status?.conditions?.length === 1;
  const timer = setInterval(() => {
    for (const [apiVersion, kind] of [
      ['karpenter.sh/v1', 'NodePool'],
      ['eks.amazonaws.com/v1', 'NodeClass'],
    ] as const) {
      void plane.client.objects
        .list(apiVersion, kind)
        .then(({ items }) =>
          Promise.all(
            items.filter((item) => !isReady(item)).map((item) => markReady(plane, { ...item, apiVersion, kind })),
          ),
        )
        // The object changed meanwhile, or its kind is not served yet: the next round repeats this.
        .catch(() => undefined);
    }
  }, 500);
  scratch.defer(() => clearInterval(timer));
}

/** The machines in the format of Karpenter's KWOK provider. */
function machines({ instanceTypes, zones }: KarpenterOptions): object[] {
  return instanceTypes.map((name) => {
    const { gpus, vcpus, memoryGiB } = GPU_INSTANCE_TYPES[name];
    const offering = (capacityType: CapacityType, zone: string): object => ({
      Price: PRICES[capacityType] * vcpus,
      Available: true,
      Requirements: [
        { key: 'karpenter.sh/capacity-type', operator: 'In', values: [capacityType] },
        { key: 'topology.kubernetes.io/zone', operator: 'In', values: [zone] },
      ],
    });
    return {
      name,
      architecture: 'amd64',
      operatingSystems: ['linux'],
      resources: {
        cpu: String(vcpus),
        memory: `${memoryGiB}Gi`,
        'ephemeral-storage': '200Gi',
        'nvidia.com/gpu': String(gpus),
      },
      offerings: zones.flatMap((zone) => [offering('spot', zone), offering('on-demand', zone)]),
    };
  });
}
