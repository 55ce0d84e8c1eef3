import { promises as fs } from 'node:fs';
import path from 'node:path';
import type { ModelConfig } from './model-config';
import { traceCommand } from '../core/next-command';
import { onnxFaults } from './onnx';
import { displayPath, exists, getReason, staysInside, TRACE_FILE } from './paths';
import type { PlatformFacts } from './platforms';
import type { ProblemList } from '../core/problems';
import { readFiles, type SourceFile } from './source-files';
import { uncompiled } from './programs';
import { programFaults, torchScriptFaults } from './torch-files';
import { WEIGHTS_FILE } from './weights-file';

/** One version folder. The folder of an ensemble is empty or has a `.keep`. */
export interface ModelVersion {
  version: number;
  files: SourceFile[];
}

/** Whether Triton takes a folder of that name for a version. */
export const isVersion = (name: string): boolean => /^[1-9]\d*$/.test(name) && Number.isSafeInteger(Number(name));

/**
 * Whether a folder's name looks like a version but is not one. Triton reads a number from the beginning of the name: it
 * skips `01`, takes `1a` for version 1 and then does not find the folder, and `-1` crashed its Python backend. Other
 * names, such as `warmup` and `labels`, are not versions.
 */
const isMistakenVersion = (name: string): boolean => /^[-+]?\d|^v\d+$/i.test(name);

/** The version that such a name was meant to be: 1 for `01` and `v1`. */
function meantVersion(name: string): string {
  const digits = /[1-9]\d*/.exec(name)?.[0] ?? '';
  return isVersion(digits) ? digits : 'a number from 1';
}

/** Returns the version folders of a model with their files, ordered by number. */
export async function readVersions(root: string, problems: ProblemList): Promise<ModelVersion[]> {
  const versions: ModelVersion[] = [];
  for (const name of await fs.readdir(root)) {
    if (!isVersion(name) && !isMistakenVersion(name)) continue;
    const at = path.join(root, name);
    const fault = (message: string, hint: string): void => {
      problems.problems.push({ file: displayPath(at), message, allowed: '1, 2, 3, ...', hint });
    };
    // readFiles reports a broken link.
    const isFolder = await fs.stat(at).then(
      (stat) => stat.isDirectory(),
      () => true,
    );
    if (!isVersion(name)) {
      if (isFolder) fault('is not a version that Triton serves', `rename it to ${meantVersion(name)}`);
    } else if (!isFolder) {
      fault('has the name of a version, but is a file', 'put it into a folder of that name');
    } else {
      versions.push({ version: Number(name), files: readFiles(root, name, problems) });
    }
  }
  return versions.sort((a, b) => a.version - b.version);
}

/** Checks that each version has the files that the platform's backend opens. */
export async function checkArtifacts(
  model: { root: string; config: ModelConfig; facts: PlatformFacts | undefined; versions: readonly ModelVersion[] },
  problems: ProblemList,
): Promise<void> {
  const { root, config, facts, versions } = model;
  const ensemble = facts?.label === 'ensemble';
  if (versions.length === 0) {
    const [name] = artifactNames(config, facts);
    problems.problems.push({
      file: displayPath(root),
      message: 'has no version folder',
      hint: ensemble
        ? 'an ensemble also needs a version folder: create the file 1/.keep'
        : await howToMake(root, `1/${name ?? ''}`, name ?? "the model's files"),
    });
  }
  for (const { version, files } of versions) {
    const names = artifactNames(config, facts);
    for (const name of names) {
      // A file that the configuration names for another purpose is not a misnamed version of the missing file.
      const others = files.filter(({ key }) => !names.includes(path.basename(key)));
      if (facts?.label === 'tensorrt_plan' && uncompiled({ platform: facts.label, config }, { version, files }))
        continue;
      await checkArtifact(root, `${version}/${name}`, { files, others }, { config, facts }, problems);
    }
  }
}

/** Names of the files that a version must have: one for each GPU generation, or one for all. */
function artifactNames(config: ModelConfig, facts: PlatformFacts | undefined): string[] {
  const byComputeCapability = Object.values(config.cc_model_filenames ?? {});
  if (byComputeCapability.length > 0) return byComputeCapability.filter(staysInside);
  const { default_model_filename: given = '' } = config;
  const name = given === '' ? facts?.artifact?.name : given;
  // A runtime other than the backend's own (`runtime: "model.py"`) chooses its file itself.
  return name === undefined || config.runtime || !staysInside(name) ? [] : [name];
}

async function checkArtifact(
  root: string,
  key: string,
  { files, others }: { files: readonly SourceFile[]; others: readonly SourceFile[] },
  { config, facts }: { config: ModelConfig; facts: PlatformFacts | undefined },
  problems: ProblemList,
): Promise<void> {
  const fault = (message: string, hint?: string): void => {
    problems.problems.push({
      file: displayPath(path.join(root, key)),
      message,
      hint,
    });
  };
  const kind = facts?.artifact?.kind ?? 'either';
  const file = files.find((one) => one.key === key);
  if (file === undefined) {
    const stat = await fs.stat(path.join(root, key)).catch(() => undefined);
    const filled = files.some((one) => one.key.startsWith(`${key}/`));
    if (stat?.isDirectory() && kind === 'file') fault('must be a file, but is a folder');
    else if (stat?.isDirectory() && !filled) fault('is an empty folder', await howToMake(root, key));
    else if (stat === undefined && !(await isLink(path.join(root, key))))
      fault('is missing', otherName(key, others) ?? (await howToMake(root, key)));
    // An existing path that is not among the files was reported when the files were read.
    return;
  }
  if (file.bytes === 0) {
    fault('is empty', facts?.label === 'python' ? WRITE_PYTHON : await howToMake(root, key));
    return;
  }
  const check = facts === undefined ? undefined : CONTENT_CHECKS[facts.label];
  try {
    for (const { message, hint } of check?.(file.path, config) ?? []) fault(message, hint);
  } catch (error) {
    fault(`cannot be read: ${getReason(error)}`);
  }
}

/** Platform -> check of the content of its file. */
const CONTENT_CHECKS: Readonly<Record<string, typeof onnxFaults>> = {
  onnxruntime_onnx: onnxFaults,
  pytorch_libtorch: torchScriptFaults,
  torch_aoti: programFaults,
};

/** Returns a hint if the only file of that type in the version folder has another name. */
function otherName(key: string, files: readonly SourceFile[]): string | undefined {
  const [folder, name] = [path.dirname(key), path.basename(key)];
  const alike = files.filter(
    (file) => path.dirname(file.key) === folder && path.extname(file.key) === path.extname(name),
  );
  const [only] = alike;
  if (only === undefined || alike.length > 1) return undefined;
  const other = path.basename(only.key);
  return `rename ${only.key} to ${name}, or set default_model_filename: ${other}`;
}

const isLink = (file: string): Promise<boolean> =>
  fs.lstat(file).then(
    (stat) => stat.isSymbolicLink(),
    () => false,
  );

const WRITE_PYTHON = 'define class TritonPythonModel with execute(self, requests); see docs/python-models.md';

/** Returns a hint that tells how to make an artifact, depending on the files of the model folder. */
async function howToMake(root: string, key: string, what = 'it'): Promise<string> {
  const has = (name: string): Promise<boolean> => exists(path.join(root, name));
  if ((await has(TRACE_FILE)) || (await has(WEIGHTS_FILE))) return traceCommand(root);
  return `put ${what} at ${path.basename(root)}/${key}`;
}

/**
 * Returns the versions that Triton serves, ascending. Without a version_policy, Triton serves the newest one.
 * Versions of `specific` are returned even if they are missing; the rules refuse such a policy.
 */
export function servedVersions({ version_policy: policy }: ModelConfig, versions: readonly number[]): number[] {
  if (policy?.specific !== undefined) return ascending(policy.specific.versions ?? []);
  const there = ascending(versions);
  if (policy?.all !== undefined) return there;
  const newest = policy?.latest === undefined ? 1 : (policy.latest.num_versions ?? 0);
  return newest > 0 ? there.slice(-newest) : [];
}

/**
 * Returns the configuration with its served versions as `specific`, in place of `latest`, `all` or no version_policy.
 * Then a server that starts while another version is being uploaded does not load that version.
 * Without version folders the configuration is returned unchanged.
 */
export function withServedVersions(config: ModelConfig, versions: readonly number[]): ModelConfig {
  const served = servedVersions(config, versions);
  return served.length === 0 ? config : { ...config, version_policy: { specific: { versions: served } } };
}

const ascending = (versions: readonly number[]): number[] => [...new Set(versions)].sort((a, b) => a - b);
