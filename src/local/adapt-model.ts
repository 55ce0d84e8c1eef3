import { isDeepStrictEqual } from 'node:util';
import { configText, withServedVersions, type RepositoryModel } from '../model';
import { withCompiledPrograms } from './compiled';
import { selectModels } from './selection';

/** The models of a publish to this machine: those that it serves, as it serves them. The others are passed to `leaveOut`. */
export function adaptModels(
  models: readonly RepositoryModel[],
  leaveOut: (name: string, reason: string) => void,
): RepositoryModel[] {
  const { served, notServed } = selectModels({ models: [...models], failed: [] });
  for (const { model, reason } of notServed) leaveOut(model.name, reason);
  return served.map(adaptToThisMachine);
}

/** Platforms of python/backends, which run each instance in a process of its own. */
const OWN_PROCESSES = ['pytorch_libtorch', 'torch_aoti', 'onnxruntime_onnx'];

/**
 * Returns the model with one warm-up request per shape, instead of several for each batch size. Warm-up of each size
 * is for GPUs, where the first calls of a shape take seconds. On a CPU, 72 faces for `gfpgan` take about half a minute.
 * A model of PyTorch or ONNX gets one instance, because each would import PyTorch or ONNX Runtime again. Instances on GPUs
 * become instances on the CPU, because this Triton sees no GPU.
 */
export function adaptToThisMachine(given: RepositoryModel): RepositoryModel {
  const model = withCompiledPrograms(given);
  const { model_warmup: samples = [], instance_group: groups = [] } = model.config;
  const kept = samples
    .filter(({ inputs }, index) => samples.findIndex((other) => isDeepStrictEqual(other.inputs, inputs)) === index)
    .map((sample) => ((sample.count ?? 1) > 1 ? { ...sample, count: 1 } : sample));
  const single = groups.map((group) => {
    const { gpus = [], kind, count = 1, ...others } = group as typeof group & { gpus?: number[] };
    const isAlone = OWN_PROCESSES.includes(model.platform) && count > 1;
    if (kind !== 'KIND_GPU' && gpus.length === 0) return isAlone ? { ...group, count: 1 } : group;
    return { ...others, kind: 'KIND_CPU' as const, count: isAlone ? 1 : count };
  });
  // Triton 2.51 does not know the platform, which is a backend of its own here (python/backends).
  const named = model.platform === 'torch_aoti';
  if (isDeepStrictEqual([kept, single], [samples, groups]) && !named) return model;
  const config = {
    ...model.config,
    ...(samples.length === 0 ? {} : { model_warmup: kept }),
    ...(groups.length === 0 ? {} : { instance_group: single }),
    ...(named ? { backend: 'torch_aoti' } : {}),
  };
  const numbers = model.versions.map(({ version }) => version);
  return { ...model, config, configText: configText(withServedVersions(config, numbers)) };
}
