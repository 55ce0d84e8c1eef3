import type { ProblemList } from '../../src/core/problems';
import { subnetRanges } from '../network/cidr';
import { addProblems } from '../triton/rules';
import { completeSettings } from '../triton/settings';
import type { ConfigValues } from './config';
import type { Values } from './fields';
import { createsNetwork } from './rules';
import { TRITON_FIELDS } from './triton-fields';
import type { TritonSettings } from './types';

export const COMPONENT_NAME = 'triton';

/** Reads the settings of TritonServer, and applies its rules, so that their problems are reported together with all others. */
export function tritonSettings(
  values: ConfigValues,
  encrypted: ReadonlySet<string>,
  problems: ProblemList,
): TritonSettings {
  const pairs = Object.entries(values).filter(([key]) => key in TRITON_FIELDS);
  const own = Object.fromEntries(pairs) as unknown as Values<typeof TRITON_FIELDS>;
  const { exposure, environment } = own;
  const given = { ...own, exposure: { ...exposure, controllerCidrs: controllerCidrs(values) } };
  const settings = completeSettings(COMPONENT_NAME, given);
  addProblems(settings, problems);
  const isSecret = encrypted.has('environment');
  return {
    ...settings,
    environment: isSecret ? {} : environment,
    secretEnvironment: isSecret ? environment : {},
    // Auto Mode includes the ingress controller, but no IngressClass for it.
    createIngressClass:
      values.existingCluster === undefined &&
      exposure.kind === 'ingress' &&
      exposure.className === TRITON_FIELDS.exposure.fields.className.default,
  };
}

/**
 * By default the ranges of the subnets of a created network in which AWS's controllers place the load balancer: the public
 * ones, which have no pods, if it faces the internet, otherwise the private ones. Another controller is a pod in the private
 * ones.
 */
function controllerCidrs(values: ConfigValues): string[] {
  const { vpcCidr, availabilityZones, exposure } = values;
  const { controllerCidrs: given, scheme, tlsSecretName } = exposure;
  if (given.length > 0 || !createsNetwork(values)) return given;
  try {
    const ranges = subnetRanges(vpcCidr, availabilityZones);
    return scheme === 'internet-facing' && tlsSecretName === undefined ? ranges.public : ranges.private;
  } catch {
    // Reported for vpcCidr.
    return [vpcCidr];
  }
}
