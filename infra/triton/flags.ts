import * as pulumi from '@pulumi/pulumi';
import { withEndpoint } from '../../scripts/lib/publish/location';
import { CONTROL_HEADER } from '../../scripts/lib/triton/control-key';
import { LOAD_ALL_FLAG, SERVING_FLAGS } from '../../scripts/lib/triton/serving';
import type { TritonSettings } from './settings';

/** Environment variable that holds the key, so that the Deployment does not. */
export const CONTROL_KEY_VARIABLE = 'MODEL_CONTROL_KEY';

/**
 * What changes the server rather than asks it. Shared memory too: a client that is no process of the pod has no use for
 * it, and it has been the way into servers. Not health, which probes ask without a key.
 */
const GUARDED_APIS = ['model-repository', 'shared-memory', 'trace', 'logging'];

/** The arguments of tritonserver. */
export function flags(settings: TritonSettings): pulumi.Input<string>[] {
  const repository = pulumi
    .all([settings.modelRepository, settings.endpointUrl])
    .apply(([location, endpoint]) => withEndpoint(location, endpoint));
  return [
    pulumi.interpolate`--model-repository=${repository}`,
    ...SERVING_FLAGS,
    LOAD_ALL_FLAG,
    `--exit-timeout-secs=${settings.shutdown.exitTimeoutSeconds}`,
    ...(settings.modelControl === undefined ? [] : guardFlags()),
    ...settings.extraArguments,
  ];
}

/** Kubernetes puts the key in when it starts the container. */
function guardFlags(): string[] {
  const guard = `${GUARDED_APIS.join(',')}:${CONTROL_HEADER}=$(${CONTROL_KEY_VARIABLE})`;
  return [`--http-restricted-api=${guard}`, `--grpc-restricted-protocol=${guard}`];
}
