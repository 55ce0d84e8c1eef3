import * as pulumi from '@pulumi/pulumi';
import { ProblemList } from '../../src/core/problems';
import type { Exposure, IngressTls } from '../triton/args';
import { addProblems } from '../triton/validate';
import { DEFAULTS } from '../triton/limits';
import { completeOptions } from '../triton/settings';
import { subnetRanges } from '../network/cidr';
import type { ConfigValues } from './config';
import { createsNetwork } from './rules';
import type { TritonSettings } from './types';

/** Name of the Deployment and its Service. */
export const COMPONENT_NAME = 'triton';

/** What decides about TritonServer in a stack file, or in a program, whose values may be outputs. */
type TritonValues = Omit<ConfigValues, 'environment' | 'protect'> & {
  environment: Record<string, pulumi.Input<string>>;
  protect?: boolean;
};

/**
 * Reads the settings of TritonServer.
 * @param name of the component
 */
export function tritonSettings(
  values: TritonValues,
  encrypted: ReadonlySet<string>,
  problems: ProblemList,
  name = COMPONENT_NAME,
): TritonSettings {
  const settings: TritonSettings = {
    namespace: { name: values.namespace, create: values.createNamespace, protect: values.protect },
    replicas: values.replicas,
    gpusPerPod: values.gpusPerPod,
    nodeSelector: values.nodeSelector,
    tolerations: values.tolerations,
    exposure: exposure(values, problems),
    network: {
      clientNamespaces: values.clientNamespaces,
      monitoringNamespace: values.monitoringNamespace,
      egressCidrs: orUndefined(values.egressCidrs),
      egressPorts: orUndefined(values.egressPorts),
    },
    publisherGroup: values.publisherGroup,
    extraArguments: values.extraArguments,
    [encrypted.has('environment') ? 'secretEnvironment' : 'environment']: values.environment,
    image: values.image,
    runtimeClassName: values.runtimeClassName,
    priorityClassName: values.priorityClassName,
    resources: values.resources,
    startup: values.startup,
    shutdown: values.shutdown,
    rollout: values.rollout,
    autoscaling: values.autoscaling,
    monitoring: values.monitoring,
    slo: values.slo,
    tracing: values.tracing,
    agentImage: values.agentImage,
  };
  checkOptions(name, settings, problems);
  return settings;
}

/** Paths in TritonOptions whose settings have another name in a stack file. */
const KEYS: Readonly<Record<string, string>> = {
  'namespace.name': 'namespace',
  'network.clientNamespaces': 'clientNamespaces',
  'network.monitoringNamespace': 'monitoringNamespace',
  'network.egressCidrs': 'egressCidrs',
  'network.egressPorts': 'egressPorts',
  'exposure.clientCidrs': 'clientCidrs',
  'exposure.loadBalancerCidrs': 'loadBalancerCidrs',
  'exposure.controllerCidrs': 'loadBalancerCidrs',
  'exposure.host': 'ingress.host',
  'exposure.tls': 'ingress',
  'exposure.annotations': 'ingress.annotations',
};

/** Applies TritonServer's own rules, so that their problems are reported together with all others. */
function checkOptions(name: string, settings: TritonSettings, problems: ProblemList): void {
  const found = new ProblemList(problems.file);
  addProblems(completeOptions(name, settings), found);
  for (const { field = '', message, allowed, hint } of found.problems) {
    problems.add(KEYS[field] ?? field, message, { hint, allowed });
  }
}

/**
 * Ranges of the subnets in which AWS's controllers place the load balancer: the public ones, which have no pods, if it faces
 * the internet, otherwise the private ones. Another controller is a pod in the private ones.
 */
function loadBalancerSubnets({ vpcCidr, availabilityZones, ingress: asked }: TritonValues): string[] {
  try {
    const ranges = subnetRanges(vpcCidr, availabilityZones);
    return asked?.scheme === 'internet-facing' && asked.tlsSecretName === undefined ? ranges.public : ranges.private;
  } catch {
    // Reported for vpcCidr.
    return [vpcCidr];
  }
}

/** An empty list in a stack file stands for the default of TritonServer. */
const orUndefined = <T>(list: T[]): T[] | undefined => (list.length === 0 ? undefined : list);

function exposure(values: TritonValues, problems: ProblemList): Exposure {
  const clientCidrs = values.clientCidrs;
  const near = values.loadBalancerCidrs.length > 0 ? values.loadBalancerCidrs : loadBalancerSubnets(values);
  const ownNetwork = createsNetwork(values);
  if (values.exposure !== 'cluster' && !ownNetwork && values.loadBalancerCidrs.length === 0) {
    problems.add('loadBalancerCidrs', 'is empty, but this stack does not create the network', {
      allowed: 'the IP ranges of the load balancer or ingress controller, ["10.0.0.0/16"]',
    });
  }
  switch (values.exposure) {
    case 'cluster':
      return { kind: 'cluster' };
    case 'internal-load-balancer':
      return {
        kind: 'internal-load-balancer',
        clientCidrs,
        loadBalancerCidrs: near,
        loadBalancerClass: values.loadBalancerClass,
      };
    case 'ingress':
      return ingress(values, near, problems);
    default:
      return values.exposure satisfies never;
  }
}

function ingress(values: TritonValues, controllerCidrs: string[], problems: ProblemList): Exposure {
  const { ingress: asked, clientCidrs } = values;
  if (asked === undefined) {
    problems.add('ingress', 'is missing, but exposure is ingress', {
      hint: 'set at least host and a certificate',
    });
    return { kind: 'cluster' };
  }
  const tls: IngressTls[] = [
    ...(asked.certificateArn === undefined ? [] : [{ kind: 'acm', certificateArn: asked.certificateArn } as const]),
    ...(asked.tlsSecretName === undefined ? [] : [{ kind: 'secret', secretName: asked.tlsSecretName } as const]),
  ];
  if (tls.length !== 1) {
    problems.add('ingress', `has ${tls.length} certificates`, { allowed: 'one of certificateArn, tlsSecretName' });
  }
  const [certificate] = tls;
  if (certificate === undefined) return { kind: 'cluster' };
  return {
    kind: 'ingress',
    host: asked.host,
    tls: certificate,
    annotations: asked.annotations,
    controllerCidrs,
    // Auto Mode includes the ingress controller, but no IngressClass for it.
    createAutoModeClass:
      values.existingCluster === undefined &&
      (asked.className ?? DEFAULTS.ingress.className) === DEFAULTS.ingress.className,
    className: asked.className,
    scheme: asked.scheme,
    clientCidrs: orUndefined(clientCidrs),
  };
}
