import type { TritonModel } from '../triton/model';

/** What is used of a configuration. */
interface Config {
  output?: { name: string; label_filename?: string }[];
}

/** Outputs whose values have names, one for each. */
export function labelledOutputs(model: TritonModel): string[] {
  const { output = [] } = model.config as Config;
  return output.filter(({ label_filename: file }) => file !== undefined && file !== '').map(({ name }) => name);
}
