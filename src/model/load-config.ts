import { isUtf8 } from 'node:buffer';
import { promises as fs } from 'node:fs';
import path from 'node:path';
import { configFromText } from './config-text';
import { configFromYaml } from './from-yaml';
import type { ModelConfig } from './model-config';
import { CONFIG_FILE, displayPath, getReason } from './paths';
import { ProblemList } from '../core/problems';

export const YAML_FILE = 'model.yaml';

/** The configuration of one model folder, with the problems found in it. */
export interface LoadedConfig {
  /** Undefined if the configuration could not be read at all. */
  config: ModelConfig | undefined;
  /** Whether the configuration is a config.pbtxt that the user wrote. */
  isPbtxt: boolean;
  problems: ProblemList;
}

/**
 * Reads model.yaml, or config.pbtxt if there is no model.yaml. If the folder has both, the result is model.yaml with a
 * problem, because users could not tell which of them is served. Undefined if the folder has neither.
 *
 * @param root the model folder
 */
export async function loadConfig(root: string): Promise<LoadedConfig | undefined> {
  const names = await fs.readdir(root);
  const loaded = names.includes(YAML_FILE)
    ? await load(root, YAML_FILE, configFromYaml)
    : names.includes(CONFIG_FILE)
      ? await load(root, CONFIG_FILE, configFromText)
      : undefined;
  if (loaded?.config !== undefined && !loaded.config.name) loaded.config.name = path.basename(root);
  if (loaded !== undefined && !loaded.isPbtxt && names.includes(CONFIG_FILE)) {
    loaded.problems.problems.push({
      file: displayPath(path.join(root, CONFIG_FILE)),
      message: `is beside ${YAML_FILE} in the same folder`,
      hint: `remove one of them; publishing generates ${CONFIG_FILE} from ${YAML_FILE}`,
    });
  }
  return loaded;
}

async function load(
  root: string,
  file: string,
  parse: (text: string, problems: ProblemList) => ModelConfig | undefined,
): Promise<LoadedConfig> {
  const problems = new ProblemList(displayPath(path.join(root, file)));
  const text = await readText(root, file, problems);
  const config = text === undefined ? undefined : parse(text, problems);
  return { config, isPbtxt: file === CONFIG_FILE, problems };
}

async function readText(root: string, name: string, problems: ProblemList): Promise<string | undefined> {
  const file = path.join(root, name);
  try {
    const real = await fs.realpath(file);
    if (path.relative(await fs.realpath(root), real).startsWith('..')) {
      problems.add('', `is a link to ${real}, outside the model folder`, { hint: 'copy the file here instead' });
      return undefined;
    }
    const bytes = await fs.readFile(file);
    if (isUtf8(bytes)) return bytes.toString('utf8').replace(/^\uFEFF/, '');
    problems.add('', 'is not UTF-8 text');
  } catch (error) {
    problems.add('', `cannot be read: ${getReason(error)}`);
  }
  return undefined;
}
