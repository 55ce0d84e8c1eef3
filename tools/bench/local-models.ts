import { rmSync } from 'node:fs';
import { UserError } from '../../src/core/errors';
import { selectModels } from '../../src/local/selection';
import { localDirectory, startStack } from '../../src/local/stack';
import { Timings } from '../../src/local/timings';
import { paths } from '../../src/core/paths';
import { Progress } from '../../src/cli/progress';
import { TritonHttpClient } from '../../src/triton/http';
import type { Tensor } from '../../src/triton/tensor';
import { Undo } from '../../src/core/undo';

/** Ports that do not collide with a running local stack. */
export const FREE_PORTS = { 'http-port': 0, 'grpc-port': 0, 'metrics-port': 0, 's3-port': 0 };

/** Runs `work` against a local stack that serves these models of a repository. Default: all models. */
export async function withModels(
  repository: string,
  names: readonly string[] | undefined,
  work: (client: TritonHttpClient, progress: Progress) => Promise<object>,
): Promise<object> {
  const progress = new Progress();
  const undo = new Undo();
  if (repository !== paths.modelRepository) {
    undo.defer(() => rmSync(localDirectory(repository), { recursive: true, force: true }));
  }
  try {
    const { served } = await selectModels(repository, names === undefined ? {} : { models: names });
    const stack = await startStack({
      repository,
      models: served.map(({ name }) => name),
      leaveOut: false,
      loadTimeoutMs: 300_000,
      weights: [],
      ports: FREE_PORTS,
      progress,
      timings: new Timings(),
      defer: (step) => undo.defer(step),
    });
    const client = new TritonHttpClient(stack.triton.httpUrl);
    undo.defer(() => client.close());
    return await work(client, progress);
  } finally {
    await undo.run();
  }
}

/** Returns the only output of a model. */
export async function only(client: TritonHttpClient, model: string, ...inputs: Tensor[]): Promise<Tensor> {
  const { outputs } = await client.infer(model, inputs);
  if (outputs[0] === undefined) throw new UserError(`${model} returned nothing`);
  return outputs[0];
}
