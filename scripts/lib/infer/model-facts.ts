import type { CallOptions, InferenceClient } from '../triton/client';
import type { TritonModel } from '../triton/model';
import { pictureLayout } from './pictures';

/** What is used of a configuration. */
interface Config {
  output?: { name: string; label_filename?: string }[];
  ensemble_scheduling?: { step?: { model_name: string }[] };
}

/** Outputs whose values have names, one for each. */
export function labelledOutputs(model: TritonModel): string[] {
  const { output = [] } = model.config as Config;
  return output.filter(({ label_filename: file }) => file !== undefined && file !== '').map(({ name }) => name);
}

/**
 * Height and width of the picture that an ensemble takes: of the first of its steps that takes one size only. The
 * ensemble itself may leave the size open, as its first step does.
 */
export async function pictureSizeOf(
  client: InferenceClient,
  model: TritonModel,
  options: CallOptions,
): Promise<{ height: number; width: number } | undefined> {
  const steps = (model.config as Config).ensemble_scheduling?.step ?? [];
  for (const { model_name: name } of steps) {
    const { inputs } = await client.modelMetadata(name, undefined, options);
    for (const input of inputs) {
      const layout = pictureLayout(input);
      if (layout !== undefined && layout.height > 0 && layout.width > 0) return layout;
    }
  }
  return undefined;
}
