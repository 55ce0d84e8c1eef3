import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import type { ModelDevice } from '../release/agent-api';
import type { Manifest } from '../release/manifest';
import type { InferenceClient } from '../triton/http';

const AT_A_TIME = 8;

/**
 * The device of each model, from the instance groups of the configuration that Triton completed. Models without
 * instances, such as ensembles, are left out.
 */
export async function readDevices(
  { models }: { models: Readonly<Record<string, unknown>> },
  triton: Pick<InferenceClient, 'modelConfig'>,
): Promise<Record<string, ModelDevice>> {
  const devices = Object.create(null) as Record<string, ModelDevice>;
  await forEachLimited(Object.keys(models), AT_A_TIME, async (name) => {
    const config = await triton.modelConfig(name);
    const groups = (config['instance_group'] ?? []) as { kind?: string }[];
    const kinds = new Set(groups.map(({ kind }) => kind ?? 'KIND_AUTO'));
    if (kinds.has('KIND_MODEL')) devices[name] = 'chosen by the model';
    else if (kinds.has('KIND_GPU')) devices[name] = kinds.has('KIND_CPU') ? 'CPU and GPU' : 'GPU';
    else if (kinds.has('KIND_CPU')) devices[name] = 'CPU';
  });
  return devices;
}

/** A configuration that asks for the CPU, or whose backend prefers it. */
const FOR_CPU = /\bKIND_CPU\b|\bbackend:\s*"openvino"/;

/**
 * Triton moves a model to the CPU if it sees no GPU, and the configuration leaves the kind of the instances open.
 * @throws UserError that names such models
 */
export function requireGpus({ models }: Manifest, devices: Readonly<Record<string, ModelDevice>>, gpus: number): void {
  if (gpus === 0) return;
  const onCpu = Object.entries(models).flatMap(([name, { config }]) =>
    devices[name] === 'CPU' && !FOR_CPU.test(config) ? [name] : [],
  );
  if (onCpu.length === 0) return;
  throw new UserError(
    `Triton serves ${onCpu.sort().join(', ')} on the CPU, although this pod should have ${gpus} GPU${gpus === 1 ? '' : 's'}: ` +
      'Triton sees no GPU',
    {
      hint:
        "read the first lines of Triton's log (the CUDA version may need a newer driver); for a model that should run " +
        'on the CPU, write KIND_CPU in its instance_group',
    },
  );
}

/**
 * Refuses programs that are compiled for other pods, before Triton loads their code.
 * @param target of this pod; undefined if it is not known
 * @throws UserError that names such models
 */
export function requireTarget({ models }: Pick<Manifest, 'models'>, target: string | undefined): void {
  if (target === undefined) return;
  const wrong = Object.entries(models).flatMap(([name, { served, compiled = {} }]) =>
    served.flatMap((version) => {
      const built = compiled[String(version)];
      return built === undefined || built.target === target ? [] : [`${name} ${version} (${built.target})`];
    }),
  );
  if (wrong.length === 0) return;
  throw new UserError(`compiled for other pods than this one (${target}): ${wrong.sort().join(', ')}`, {
    hint: 'compile them for this stack: npm run build -- --stack NAME; then publish them with npm run sync-models',
  });
}
