import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import { Ingress, IngressClass } from '@pulumi/kubernetes/networking/v1';
import * as pulumi from '@pulumi/pulumi';
import { tagsAnnotation } from './load-balancer-tags';
import { labels } from './names';
import type { ComponentContext } from './names';
import type { ServerSettings } from './settings';
import { ALB } from './rules';
import { rolloutTimeouts } from './timeouts';

type Annotations = Record<string, pulumi.Input<string>>;

/**
 * Allowed paths: inference, metadata and health. /v2/repository (loading and unloading), shared memory and log settings
 * are excluded. Prefixes cannot exclude the statistics and trace settings of a model, below /v2/models; Triton requires the
 * model-control key for them.
 */
const PATHS = [
  { path: '/v2', pathType: 'Exact' },
  { path: '/v2/health', pathType: 'Prefix' },
  { path: '/v2/models', pathType: 'Prefix' },
];

/** TLS 1.3 and 1.2, as AWS recommends. */
const TLS_POLICY = 'ELBSecurityPolicy-TLS13-1-2-2021-06';

/**
 * Longest time for an answer. The default of 60 s ends requests to slow models with 504
 * (https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html, read 2026-11-25).
 */
const IDLE_SECONDS = 300;

/** Creates an Ingress with TLS, for HTTP clients outside the cluster. Returns its address. */
export function createIngress(part: ComponentContext): pulumi.Output<string> {
  const { settings, namespace, options } = part;
  const { name, exposure } = settings;
  const { host = '', tlsSecretName: secretName } = exposure;
  const service = { name, port: { name: 'http' } };
  new Ingress(
    name,
    {
      metadata: { name, namespace, labels: labels(name), annotations: annotations(settings) },
      spec: {
        ingressClassName: createClass(part),
        tls: secretName === undefined ? undefined : [{ hosts: [host], secretName }],
        rules: [{ host, http: { paths: PATHS.map((path) => ({ ...path, backend: { service } })) } }],
      },
    },
    // Pulumi waits until pods behind the Ingress are ready.
    { ...options, customTimeouts: rolloutTimeouts(settings) },
  );
  return pulumi.output(`https://${host}`);
}

/**
 * Returns the class, and creates it for EKS Auto Mode, which runs a controller but leaves its IngressClass to users.
 */
function createClass({ settings, options }: ComponentContext): pulumi.Input<string> {
  const { className, scheme } = settings.exposure;
  if (!settings.createIngressClass) return className;
  const metadata = { name: className, labels: labels(settings.name) };
  const group = 'eks.amazonaws.com';
  // The user guide names the field (https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-alb.html, 2026-11-27), and
  // an example of AWS has its form:
  // https://github.com/aws-samples/sample-aws-eks-auto-mode/blob/307e402c6913/terraform/ingressclass.tf (2026-11-27).
  const tags = Object.entries(settings.loadBalancerTags).map(([key, value]) => ({ key, value }));
  const parameters = new CustomResource(
    `${settings.name}-ingress-class`,
    {
      apiVersion: `${group}/v1`,
      kind: 'IngressClassParams',
      metadata,
      spec: { scheme, ...(tags.length > 0 && { tags }) },
    },
    options,
  );
  return new IngressClass(
    `${settings.name}-ingress-class`,
    {
      metadata,
      spec: {
        controller: `${group}/alb`,
        parameters: { apiGroup: group, kind: 'IngressClassParams', name: parameters.metadata.name },
      },
    },
    options,
  ).metadata.name;
}

function annotations(settings: ServerSettings): Annotations {
  const { annotations: given, certificateArn, clientCidrs, scheme } = settings.exposure;
  if (certificateArn === undefined) return given;
  return {
    [`${ALB}/scheme`]: scheme,
    [`${ALB}/target-type`]: 'ip',
    [`${ALB}/listen-ports`]: '[{"HTTPS":443}]',
    [`${ALB}/ssl-policy`]: TLS_POLICY,
    [`${ALB}/certificate-arn`]: certificateArn,
    ...(clientCidrs.length === 0 ? {} : { [`${ALB}/inbound-cidrs`]: clientCidrs.join(',') }),
    [`${ALB}/healthcheck-path`]: '/v2/health/ready',
    [`${ALB}/target-group-attributes`]: `deregistration_delay.timeout_seconds=${settings.drainSeconds}`,
    [`${ALB}/load-balancer-attributes`]: `idle_timeout.timeout_seconds=${IDLE_SECONDS}`,
    // A class of Auto Mode has the tags in its parameters.
    ...(settings.createIngressClass ? {} : tagsAnnotation(`${ALB}/tags`, settings.loadBalancerTags)),
    ...given,
  };
}
