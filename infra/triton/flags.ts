import * as pulumi from '@pulumi/pulumi';
import { withEndpoint } from '../../src/publish/location';
import { guardFlags } from '../../src/triton/control-key';
import { LOAD_ALL_FLAG, SERVING_FLAGS } from '../../src/triton/serving';
import type { TritonSettings } from './settings';

/** Environment variable that holds the key, so that the Deployment does not. */
export const CONTROL_KEY_VARIABLE = 'MODEL_CONTROL_KEY';

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
    // Kubernetes puts the key in when it starts the container.
    ...guardFlags(`$(${CONTROL_KEY_VARIABLE})`),
    ...settings.extraArguments,
  ];
}
