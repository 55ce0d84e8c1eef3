import type { TritonModel } from '../triton/model';

/** The fields of a configuration that are used. */
interface Config {
  output?: { name: string; label_filename?: string }[];
}

/** Names of the outputs with a label file, which names each value. */
export function labelledOutputs(model: TritonModel): string[] {
  const { output = [] } = model.config as Config;
  return output.filter(({ label_filename: file }) => file !== undefined && file !== '').map(({ name }) => name);
}
