import type { Values } from '../settings/fields';
import { DRAIN_SECONDS, TRITON_FIELDS, type TRITON_SERVER_FIELDS } from '../settings/triton-fields';
import { AGENT_IMAGE, defaultImage } from './image';

/** Values of the table; those of a stack file, or those of arguments, which may be outputs. */
type TritonValues = Values<typeof TRITON_FIELDS, true>;

/** Defaults of members that a mapping has only if it is given. */
const { monitoring: MONITORING, autoscaling: AUTOSCALING } = TRITON_FIELDS;
export const DEFAULT_MONITORING_NAMESPACE = MONITORING.fields.namespace.default;
export const DEFAULT_SCALING = {
  queueMilliseconds: AUTOSCALING.fields.queueMilliseconds.default,
  instancesPerReplica: AUTOSCALING.fields.instancesPerReplica.default,
};

export const AUTO_MODE_CLASS = 'eks.amazonaws.com/nlb';

export const AGENT_REQUESTS = { cpu: 0.25, memoryMiB: 256 } as const;

/** Disk for the agent's manifests and notes, and for the directories of files. */
const RESERVED_BYTES = 64 * 2 ** 20;

export const modelDiskBytes = (scratchGiB: number): number => scratchGiB * 2 ** 30 - RESERVED_BYTES;

/** Group whose members may publish, in Kubernetes. */
export const PUBLISHER_GROUP = 'triton-publishers';

/** Fills in the defaults that depend on other settings or on files. */
export function completeSettings<T extends TritonValues>(name: string, given: T) {
  const { namespace, image, agent, drainSeconds, exposure, autoscaling, monitoring } = given;
  const prometheus = `http://prometheus-operated.${monitoring?.namespace ?? DEFAULT_MONITORING_NAMESPACE}.svc:9090`;
  return {
    ...given,
    namespace: { ...namespace, name: namespace.name ?? name },
    image: image ?? defaultImage(),
    agent: { image: agent.image ?? AGENT_IMAGE },
    drainSeconds: drainSeconds ?? DRAIN_SECONDS[exposure.kind],
    autoscaling: autoscaling && { ...autoscaling, prometheusUrl: autoscaling.prometheusUrl ?? prometheus },
  };
}

export type CompleteSettings = ReturnType<typeof completeSettings<TritonValues>>;

/** The arguments of TritonServer with every default, and its name. Outputs of other resources are unchanged. */
export type ServerSettings = ReturnType<typeof completeSettings<Values<typeof TRITON_SERVER_FIELDS, true>>> & {
  name: string;
};
