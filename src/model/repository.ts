import { promises as fs } from 'node:fs';
import path from 'node:path';
import { UserError, type Problem } from '../core/errors';
import { readGolden } from './golden/read';
import { GOLDEN_FOLDER, type GoldenRequest } from './golden/request';
import { forEachLimited } from '../core/concurrency';
import { readWeightsFile, WEIGHTS_FILE } from './weights-file';
import { configText } from './config-text';
import { YAML_FILE, loadConfig, type LoadedConfig } from './load-config';
import type { ModelConfig } from './model-config';
import { nearest } from '../core/nearest';
import { nextCommand, repoFlag } from '../core/next-command';
import { CONFIG_FILE, displayPath, getReason, TRACE_FILE } from './paths';
import { platformFacts } from './platforms';
import { ProblemList, describe, formatList } from '../core/problems';
import { readReferences } from './references';
import { checkRequirements } from './requirements';
import { programRules } from './rules/programs';
import { releaseRules } from './rules/release';
import { flowRules } from './rules/ensemble-flow';
import { areComplete, stepRules } from './rules/ensemble-steps';
import { identityRules } from './rules/identity';
import type { CheckedModel } from './rules/rule';
import { schedulingRules } from './rules/scheduling';
import { sequenceRules } from './rules/sequence';
import { tensorRules } from './rules/tensors';
import { versionRules } from './rules/version-policy';
import { warmupRules } from './rules/warmup';
import { isIgnored, readFiles, type SourceFile } from './source-files';
import { checkTracedFiles } from './stale-traces';
import { checkArtifacts, readVersions, servedVersions, withServedVersions, type ModelVersion } from './versions';

/** A model that can be published. */
export interface RepositoryModel {
  name: string;
  /** Absolute path of its folder. */
  directory: string;
  /** The configuration as its author wrote it. */
  config: ModelConfig;
  /** The text of its config.pbtxt: `config` with `served` as its version_policy. */
  configText: string;
  /** Triton's platform, or the backend if there is no platform. */
  platform: string;
  /** Ordered by number. */
  versions: ModelVersion[];
  /** Versions that Triton serves, ascending. */
  served: number[];
  /** Files that are published besides config.pbtxt and the versions, such as labels and warm-up data. */
  extraFiles: SourceFile[];
  /** Golden requests of the model's folder; empty if artifacts are not read. */
  golden: GoldenRequest[];
}

/** Selects models and the depth of the checks. */
export interface Selection {
  /** All models by default. Models of an ensemble's steps are added. */
  models?: readonly string[];
  exclude?: readonly string[];
  /** False checks only configurations, which is possible before any model is traced. */
  artifacts?: boolean;
  /** Also checks whether this release of Triton can serve the models. */
  triton?: string | undefined;
}

export interface Repository {
  /** Models by name, including models with problems whose configuration could be read. Never publish with problems. */
  models: RepositoryModel[];
  /** All problems found; empty if everything may be published. */
  problems: Problem[];
  /** Those of each model that was read. Others belong to the selection or the folder. */
  problemsOf: ReadonlyMap<string, readonly Problem[]>;
  /** Models that were not selected but that an ensemble needs. */
  added: string[];
  /** Names of all models in the folder, selected or not. */
  names: readonly string[];
}

const MODEL_RULES = [
  ...identityRules,
  ...tensorRules,
  ...schedulingRules,
  ...sequenceRules,
  ...programRules,
  ...versionRules,
  ...warmupRules,
  ...releaseRules,
];

/** Reads a model repository, ours or any other for Triton, and performs all checks that need no server. */
export async function readRepository(directory: string, selection: Selection = {}): Promise<Repository> {
  let reader: RepositoryReader;
  try {
    reader = await RepositoryReader.open(directory);
  } catch (error) {
    const message = `cannot be read: ${getReason(error)}`;
    const problems = [{ file: displayPath(directory), message }];
    return { models: [], added: [], names: [], problems, problemsOf: new Map() };
  }
  return reader.read(selection);
}

/**
 * Like readRepository, but throws if there are problems.
 * @param purpose for the message: `published; nothing was uploaded`
 * @throws UserError with all problems
 */
export async function readValidRepository(
  directory: string,
  selection: Selection,
  purpose: string,
): Promise<Repository> {
  const repository = await readRepository(directory, selection);
  const { problems, models } = repository;
  if (problems.length === 0) return repository;
  throw new UserError(`${displayPath(directory)} is not ready to be ${purpose}`, {
    problems,
    // Excluding models helps only if some model could be read.
    hint: models.length === 0 ? undefined : 'fix these problems, or exclude models with --exclude A,B',
  });
}

/** The models in the steps of an ensemble; empty for other models. */
export function stepModels(config: ModelConfig): string[] {
  const names = (config.ensemble_scheduling?.step ?? []).map(({ model_name: name }) => name ?? '');
  return [...new Set(names)].filter((name) => name !== '');
}

/** A model folder whose configuration was read. */
interface ReadModel {
  model: RepositoryModel;
  checked: CheckedModel;
  /** Whether all fields could be read. Otherwise rules would report consequences of the problems of reading. */
  isReadable: boolean;
}

/** Number of model folders that are read concurrently, to hide disk latency. */
const AT_ONCE = 8;

class RepositoryReader {
  /** Models by name; the problems instead of the model if it could not be read. */
  private readonly models = new Map<string, ReadModel | Problem[]>();
  private readonly problems: Problem[] = [];

  private constructor(
    private readonly directory: string,
    /** Folders that are models, or would be with a configuration. */
    private readonly names: readonly string[],
  ) {}

  static async open(directory: string): Promise<RepositoryReader> {
    const root = await fs.realpath(directory);
    const entries = await fs.readdir(root, { withFileTypes: true });
    const folders = entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
      .map(({ name }) => name);
    const names: string[] = [];
    for (const name of folders.sort()) if (await isModel(path.join(root, name))) names.push(name);
    return new RepositoryReader(root, names);
  }

  async read({ models, exclude = [], artifacts = true, triton }: Selection): Promise<Repository> {
    if (this.names.length === 0) {
      const hint = `a model is a folder with a ${YAML_FILE} or a ${CONFIG_FILE}; give the folder that contains the models`;
      this.problems.push(this.problem('', 'contains no model', hint));
    }
    this.checkNames([...(models ?? []), ...exclude]);
    const wanted = (models ?? this.names).filter((name) => this.names.includes(name) && !exclude.includes(name));
    if (wanted.length === 0 && this.problems.length === 0) {
      this.problems.push(this.problem('', 'has no model left, because --exclude removes all selected models'));
    }
    const { all, added } = await this.withStepModels([...new Set(wanted)], exclude, artifacts);
    const read = all.flatMap((name) => this.modelNamed(name) ?? []);
    for (const { checked, isReadable } of read) {
      if (!isReadable) continue;
      for (const rule of MODEL_RULES) rule({ ...checked, triton });
      this.checkEnsemble(checked, exclude);
    }
    const problemsOf = new Map(all.map((name) => [name, this.problemsOf(name)]));
    const problems = [...this.problems, ...[...problemsOf.values()].flat()];
    return { models: read.map(({ model }) => model), problems, problemsOf, added, names: this.names };
  }

  /** Reads the models, and the models that their ensembles need. */
  private async withStepModels(
    wanted: readonly string[],
    exclude: readonly string[],
    artifacts: boolean,
  ): Promise<{ all: string[]; added: string[] }> {
    const queue = [...wanted];
    const added: string[] = [];
    for (let done = 0; done < queue.length;) {
      const next = queue.slice(done);
      done = queue.length;
      await forEachLimited(next, AT_ONCE, async (name) => {
        this.models.set(name, await this.readModel(name, artifacts));
      });
      const read = next.flatMap((name) => this.modelNamed(name) ?? []);
      for (const step of read.flatMap(({ model }) => stepModels(model.config))) {
        if (queue.includes(step) || exclude.includes(step) || !this.names.includes(step)) continue;
        queue.push(step);
        added.push(step);
      }
    }
    return { all: queue.sort(), added: added.sort() };
  }

  private modelNamed(name: string): ReadModel | undefined {
    const read = this.models.get(name);
    return Array.isArray(read) ? undefined : read;
  }

  private problemsOf(name: string): readonly Problem[] {
    const read = this.models.get(name) ?? [];
    return Array.isArray(read) ? read : read.checked.problems.problems;
  }

  private async readModel(name: string, artifacts: boolean): Promise<ReadModel | Problem[]> {
    const directory = path.join(this.directory, name);
    try {
      const real = await fs.realpath(directory);
      if (path.dirname(real) !== this.directory) {
        return [this.problem(name, `is a link to ${real}, outside the repository`, 'copy the folder here instead')];
      }
      const loaded = await loadConfig(directory);
      if (loaded === undefined) {
        return [this.problem(name, `has neither ${YAML_FILE} nor ${CONFIG_FILE}`, await missingConfigHint(directory))];
      }
      if (loaded.config === undefined) return loaded.problems.problems;
      return await readFolder(directory, { ...loaded, config: loaded.config }, artifacts);
    } catch (error) {
      return [this.problem(name, `cannot be read: ${getReason(error)}`)];
    }
  }

  private checkEnsemble(model: CheckedModel, exclude: readonly string[]): void {
    const { platform, ensemble_scheduling: scheduling } = model.config;
    // Steps with another platform are reported by another rule.
    if (scheduling === undefined || platform !== 'ensemble') return;
    const { step: steps } = scheduling;
    // Models whose configuration has errors are left out, because their tensors are not fully known.
    const find = (name: string): CheckedModel | undefined => {
      const found = this.modelNamed(name);
      return found?.isReadable === true ? found.checked : undefined;
    };
    const ensemble = { model, steps: steps ?? [], find, names: this.names };
    for (const rule of stepRules) rule(ensemble);
    // The flow of tensors is known only if all steps are complete.
    if (areComplete(ensemble.steps)) for (const rule of flowRules) rule(ensemble);
    (steps ?? []).forEach(({ model_name: name = '' }, index) => {
      if (!exclude.includes(name)) return;
      const hint = `exclude ${model.name} too`;
      model.problems.add(`ensemble_scheduling.step[${index}].model_name`, `names ${name}, which is excluded`, {
        hint,
      });
    });
  }

  private checkNames(names: readonly string[]): void {
    for (const name of new Set(names)) {
      if (this.names.includes(name)) continue;
      const near = nearest(name, this.names);
      this.problems.push({
        file: displayPath(this.directory),
        message: `has no model ${describe(name)}`,
        allowed: formatList(this.names),
        hint: near && `did you mean ${near}?`,
      });
    }
  }

  private problem(name: string, message: string, hint?: string): Problem {
    const file = displayPath(path.join(this.directory, name));
    return { file, message, hint };
  }
}

/** A folder with one of these files, or with a version folder, is a model that may lack its configuration. */
const FILES_OF_MODELS = [YAML_FILE, CONFIG_FILE, TRACE_FILE, WEIGHTS_FILE];

/** Whether a folder is a model, or would be one if it had a configuration. */
async function isModel(directory: string): Promise<boolean> {
  const names = await fs.readdir(directory).catch(() => []);
  return names.some((name) => FILES_OF_MODELS.includes(name) || /^\d+$/.test(name));
}

/** The next step for a folder without configuration: if it has a model file, the configuration can be written from it. */
async function missingConfigHint(directory: string): Promise<string> {
  const entries = await fs.readdir(directory, { withFileTypes: true, recursive: true });
  const misplaced = entries.find((entry) => entry.isFile() && entry.name === CONFIG_FILE);
  if (misplaced !== undefined) {
    const at = displayPath(path.join(misplaced.parentPath, CONFIG_FILE));
    return `move ${at} to ${displayPath(path.join(directory, CONFIG_FILE))}`;
  }
  if (entries.some(({ name, parentPath }) => name === 'model.yml' && parentPath === directory)) {
    return `rename model.yml to ${YAML_FILE}`;
  }
  const file = entries.find((entry) => entry.isFile() && /\.(onnx|pt)$/.test(entry.name));
  if (file === undefined) return 'create one of them';
  const from = displayPath(path.join(file.parentPath, file.name));
  const inputs = file.name.endsWith('.pt') ? ['--input', 'TYPE:DIMS'] : [];
  const target = [path.basename(directory), ...inputs, ...repoFlag(path.dirname(directory))];
  const command = nextCommand('init', '--from', from, ...target);
  return `${command} writes ${YAML_FILE}`;
}

async function readFolder(
  directory: string,
  { config, isPbtxt, problems }: LoadedConfig & { config: ModelConfig },
  artifacts: boolean,
): Promise<ReadModel> {
  const isReadable = problems.problems.length === 0;
  const versions = artifacts ? await readVersions(directory, problems) : [];
  const files = versions.flatMap(({ version, files }) => files.map(({ key }) => key.slice(`${version}/`.length)));
  const facts = platformFacts(config, new Set(files.map((key) => key.split('/')[0] ?? '')));
  const extraFiles = artifacts ? await readExtraFiles(directory, config, isPbtxt, problems) : [];
  if (artifacts) await checkArtifacts({ root: directory, config, facts, versions }, problems);
  if (artifacts) await checkTracedFiles(directory, versions, problems);
  await checkRequirements(directory, { config, versions }, problems);
  const name = path.basename(directory);
  const numbers = artifacts ? versions.map(({ version }) => version) : undefined;
  const platform = facts?.label ?? config.platform ?? '';
  const text = configText(withServedVersions(config, numbers ?? []));
  const served = servedVersions(config, numbers ?? []);
  const known = numbers === undefined ? undefined : served;
  if (artifacts) readWeightsFile(directory, problems.problems);
  const golden = artifacts
    ? await readGolden(directory, config, numbers ?? [], served)
    : { requests: [], problems: [] };
  // Golden requests cannot be checked against a configuration that was not fully read.
  if (isReadable) problems.problems.push(...golden.problems);
  const checked: CheckedModel = {
    name,
    directory,
    config,
    isPbtxt,
    facts,
    versions: numbers,
    served: known,
    problems,
  };
  const model = {
    name,
    directory,
    config,
    configText: text,
    platform,
    versions,
    served,
    extraFiles,
    golden: golden.requests,
  };
  return { model, checked, isReadable };
}

/**
 * Returns the files to publish besides the versions. With a hand-written config.pbtxt all files are published, because
 * a Python model may open any file of its folder. A folder with a model.yaml also has sources, so only the files that
 * the configuration names are published.
 */
async function readExtraFiles(
  directory: string,
  config: ModelConfig,
  isPbtxt: boolean,
  problems: ProblemList,
): Promise<SourceFile[]> {
  const referred = await readReferences(directory, config, problems);
  const files = isPbtxt ? await readOthers(directory, problems) : referred;
  return files.filter(({ key }) => key !== CONFIG_FILE && !isInVersion(key));
}

async function readOthers(directory: string, problems: ProblemList): Promise<SourceFile[]> {
  const names = (await fs.readdir(directory)).filter(
    (name) => !isIgnored(name) && !isInVersion(`${name}/`) && name !== GOLDEN_FOLDER && name !== WEIGHTS_FILE,
  );
  return names.sort().flatMap((name) => readFiles(directory, name, problems));
}

const isInVersion = (key: string): boolean => /^\d+\//.test(key);
