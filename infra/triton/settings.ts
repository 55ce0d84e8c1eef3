import { defined } from '../defined';
import type {
  AutoscalingArgs,
  MonitoringArgs,
  NamespaceArgs,
  NetworkAccess,
  PodResources,
  RolloutArgs,
  ShutdownArgs,
  StartupBudget,
  Toleration,
  TracingArgs,
  TritonOptions,
  TritonServerArgs,
} from './args';
import { ANYWHERE, DEFAULTS, DRAIN_SECONDS } from './limits';
import { AGENT_IMAGE, defaultImage } from './image';

/** The options with every default filled in. */
export interface CompleteOptions extends TritonOptions {
  /** Name of the component, its Deployment, Service and so on. */
  name: string;
  namespace: Required<Omit<NamespaceArgs, 'protect'>> & Pick<NamespaceArgs, 'protect'>;
  image: string;
  replicas: number;
  gpusPerPod: number;
  sharedGpus: boolean;
  tolerations: Toleration[];
  resources: Required<PodResources>;
  startup: Required<StartupBudget>;
  shutdown: Required<ShutdownArgs>;
  rollout: Required<RolloutArgs>;
  exposure: NonNullable<TritonOptions['exposure']>;
  loadBalancerTags: NonNullable<TritonOptions['loadBalancerTags']>;
  network: Required<Omit<NetworkAccess, 'egressPorts'>> & Pick<NetworkAccess, 'egressPorts'>;
  autoscaling?: Required<AutoscalingArgs>;
  monitoring?: Required<MonitoringArgs>;
  tracing?: Required<TracingArgs>;
  agentImage: string;
  extraArguments: string[];
  environment: NonNullable<TritonOptions['environment']>;
  secretEnvironment: NonNullable<TritonOptions['secretEnvironment']>;
}

/** The arguments with every default filled in. Outputs of other resources are passed through unchanged. */
export type ResolvedTritonArgs = CompleteOptions & Omit<TritonServerArgs, keyof TritonOptions>;

/** Fills in the defaults that args.ts documents. An argument that is undefined counts as missing. */
export function withDefaults(name: string, args: TritonServerArgs): ResolvedTritonArgs {
  const { modelRepository, region, credentials, endpointUrl, ...options } = args;
  return {
    ...completeOptions(name, options),
    modelRepository,
    region,
    credentials,
    endpointUrl,
  };
}

/** The same for options without the location of the models. */
export function completeOptions(name: string, options: TritonOptions): CompleteOptions {
  const { autoscaling, monitoring, namespace, tracing, ...rest } = options;
  const network = {
    clientNamespaces: [],
    monitoringNamespace: DEFAULTS.monitoringNamespace,
    egressCidrs: [ANYWHERE],
    ...defined(options.network),
  };
  const exposure = options.exposure ?? { kind: 'cluster' };
  const cpu = options.resources?.cpu ?? DEFAULTS.resources.cpu;
  return {
    ...rest,
    name,
    namespace: { name, create: true, ...defined(namespace) },
    image: options.image ?? defaultImage(),
    replicas: options.replicas ?? DEFAULTS.replicas,
    gpusPerPod: options.gpusPerPod ?? DEFAULTS.gpusPerPod,
    sharedGpus: options.sharedGpus ?? true,
    tolerations: options.tolerations ?? [],
    resources: { ...DEFAULTS.resources, cpuLimit: 2 * cpu, ...defined(options.resources) },
    startup: { ...DEFAULTS.startup, ...defined(options.startup) },
    shutdown: { drainSeconds: DRAIN_SECONDS[exposure.kind], ...DEFAULTS.shutdown, ...defined(options.shutdown) },
    rollout: { ...DEFAULTS.rollout, ...defined(options.rollout) },
    exposure,
    loadBalancerTags: options.loadBalancerTags ?? {},
    network,
    extraArguments: options.extraArguments ?? [],
    environment: options.environment ?? {},
    secretEnvironment: options.secretEnvironment ?? {},
    agentImage: options.agentImage ?? AGENT_IMAGE,
    autoscaling: autoscaling && {
      ...DEFAULTS.autoscaling,
      prometheusUrl: `http://prometheus-operated.${network.monitoringNamespace}.svc:9090`,
      ...defined(autoscaling),
    },
    tracing: tracing && { ...DEFAULTS.tracing, ...defined(tracing) },
    monitoring: monitoring && {
      serviceMonitor: true,
      alerts: true,
      dashboard: true,
      selectorLabels: { release: 'kube-prometheus-stack' },
      scrapeSeconds: DEFAULTS.scrapeSeconds,
      runbookUrl: DEFAULTS.runbookUrl,
      ...defined(monitoring),
    },
  };
}
