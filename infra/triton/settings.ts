import type {
  AutoscalingArgs,
  ModelControlArgs,
  MonitoringArgs,
  NetworkAccess,
  PodResources,
  RolloutArgs,
  ShutdownArgs,
  StartupBudget,
  Toleration,
  TritonServerArgs,
} from './args';
import { defaultImage } from './image';

/** The arguments with every default filled in. What may come from another resource is as it was given. */
export interface TritonSettings extends Omit<TritonServerArgs, 'namespace'> {
  /** Of the component: of the Deployment, its Service and so on. */
  name: string;
  namespace: { name: string; create: boolean };
  image: string;
  replicas: number;
  gpusPerPod: number;
  tolerations: Toleration[];
  resources: Required<PodResources>;
  startup: Required<StartupBudget>;
  shutdown: Required<ShutdownArgs>;
  rollout: Required<RolloutArgs>;
  exposure: NonNullable<TritonServerArgs['exposure']>;
  network: Required<Omit<NetworkAccess, 'egressPorts'>> & Pick<NetworkAccess, 'egressPorts'>;
  autoscaling?: Required<AutoscalingArgs>;
  monitoring?: Required<MonitoringArgs>;
  modelControl?: ModelControlArgs;
  extraArguments: string[];
  environment: NonNullable<TritonServerArgs['environment']>;
}

/** Anywhere but the addresses of the machine itself, where cloud machines hand out their own credentials. */
const ANYWHERE = '0.0.0.0/0';

/** Fills in what args.ts says the defaults are. */
export function withDefaults(name: string, args: TritonServerArgs): TritonSettings {
  const { autoscaling, monitoring, namespace, ...rest } = args;
  const network = {
    clientNamespaces: [],
    monitoringNamespace: 'monitoring',
    egressCidrs: [ANYWHERE],
    ...args.network,
  };
  const cpu = args.resources?.cpu ?? 2;
  return {
    ...rest,
    name,
    namespace: { name, create: true, ...namespace },
    image: args.image ?? defaultImage(),
    replicas: args.replicas ?? 2,
    gpusPerPod: args.gpusPerPod ?? 1,
    tolerations: args.tolerations ?? [],
    resources: { cpu, cpuLimit: 2 * cpu, memoryGiB: 8, sharedMemoryGiB: 1, scratchGiB: 20, ...args.resources },
    startup: { downloadSeconds: 300, loadSeconds: 180, warmUpSeconds: 120, ...args.startup },
    shutdown: { drainSeconds: 15, exitTimeoutSeconds: 30, ...args.shutdown },
    rollout: { strategy: 'in-place', maxUnavailable: 1, ...args.rollout },
    exposure: args.exposure ?? { kind: 'cluster' },
    network,
    extraArguments: args.extraArguments ?? [],
    environment: args.environment ?? {},
    ...(autoscaling === undefined
      ? {}
      : {
          autoscaling: {
            queueMilliseconds: 50,
            prometheusUrl: `http://prometheus-operated.${network.monitoringNamespace}.svc:9090`,
            scaleDownAfterSeconds: 600,
            ...autoscaling,
          },
        }),
    ...(monitoring === undefined
      ? {}
      : {
          monitoring: {
            serviceMonitor: true,
            alerts: true,
            dashboard: true,
            selectorLabels: { release: 'kube-prometheus-stack' },
            scrapeSeconds: 15,
            ...monitoring,
          },
        }),
  };
}
