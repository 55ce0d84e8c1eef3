import { promises as fs } from 'node:fs';
import path from 'node:path';
import { UserError, type Problem } from '../core/errors';
import { nextCommand, repoFlag, traceCommand } from '../core/next-command';
import type { ProblemList } from '../core/problems';
import { computeSha256 } from '../core/sha256';
import { GOLDEN_FOLDER } from './golden/request';
import { YAML_FILE } from './load-config';
import type { ModelConfig } from './model-config';
import { displayPath, exists, isTraceRecord, TRACE_FILE } from './paths';
import { uncompiled } from './programs';
import type { RepositoryModel } from './repository';
import { readTraceRecord, type RecordedFile, type TraceRecord } from './trace-record';
import type { ModelVersion } from './versions';

/** Beginning of the recorded paths of python/tracing itself. A new release of this package does not make models stale. */
const TRACING = 'python/tracing/';

/** A record with its place in the model folder. */
interface Placed {
  /** `1/model.pt.trace.json` */
  key: string;
  /** Time of the record's last change in nanoseconds. */
  changedAt: bigint;
  record: TraceRecord & { artifact: RecordedFile };
}

/**
 * Reports artifacts that are not the files that their records describe, because such a record gives a wrong origin of
 * the weights, and golden requests of another file. A file is read only if it was changed after its record.
 *
 * @param root the model folder
 * @param problems also has the problems of artifacts that were found before, which are not reported again
 */
export async function checkTracedFiles(
  root: string,
  versions: readonly ModelVersion[],
  problems: ProblemList,
): Promise<void> {
  for (const version of versions) {
    const placed = await findRecord(root, version);
    if (placed === undefined) continue;
    for (const file of [placed.record.artifact, ...placed.record.dataFiles]) {
      const name = displayPath(path.join(root, file.path));
      const isReported = problems.problems.some((problem) => problem.file === name);
      if (isReported || (await isWhole(root, file, placed))) continue;
      problems.problems.push({
        file: name,
        message: `is not the file that npm run trace wrote, so ${placed.key} does not describe it`,
        hint: `run "${traceCommand(root)}"; or, to publish this file, delete ${TRACE_FILE}, ${placed.key} and ${GOLDEN_FOLDER}/${version.version}/traced-*`,
      });
    }
  }
}

/**
 * Returns a warning for each model of which sources, or files that the trace wrote beside the artifact, have changed since
 * the trace. Compares only the version that a trace
 * would make now, because older versions were made from other files. Sources outside of the model folder that do not
 * exist on this machine are not compared. `npm run trace` also compares packages, the seed, python/tracing, and
 * model.yaml, which is often changed without a new trace.
 */
export async function staleTraces(models: readonly RepositoryModel[]): Promise<Problem[]> {
  const found: Problem[] = [];
  for (const { directory, config, versions, served } of models) {
    const made = versions.find(({ version }) => version === tracedVersion(config) && served.includes(version));
    if (made === undefined || !(await exists(path.join(directory, TRACE_FILE)))) continue;
    const placed = await findRecord(directory, made);
    if (placed === undefined) continue;
    const changes = await changesSince(directory, placed.record);
    if (changes.length === 0) continue;
    found.push({
      file: displayPath(path.join(directory, placed.record.artifact.path)),
      message: `is stale; since the trace: ${changes.join(', ')}`,
      hint: `run "${traceCommand(directory)}" to include these changes`,
    });
  }
  return found;
}

/**
 * Refuses artifacts of a trace that were not checked thoroughly for what the configuration allows, because `npm run local`
 * checks a model quickly before it serves it on this machine; and programs that only this machine serves.
 * @throws UserError that names each of them
 */
export async function requirePublishable(
  models: readonly RepositoryModel[],
  { isBuilt, target }: { isBuilt: (path: string) => boolean; target?: string | undefined } = { isBuilt: () => false },
): Promise<void> {
  const problems: Problem[] = [];
  for (const { directory, versions, config, platform } of models) {
    const isTraced = await exists(path.join(directory, TRACE_FILE));
    for (const version of versions) {
      const program = uncompiled({ platform, config }, version);
      if (program !== undefined && !isBuilt(program.path)) {
        const served = target === undefined ? 'its release and processor' : `its release and processor, ${target}`;
        problems.push({
          file: displayPath(program.path),
          message: `has to be compiled before Triton serves it: for ${served}`,
          hint: `run "${nextCommand('build', '--stack', 'NAME', '--models', path.basename(directory), ...repoFlag(path.dirname(directory)))}"${target === undefined ? ', and publish with --stack' : ''}`,
        });
      }
      const record = (await findRecord(directory, version))?.record;
      if (record === undefined && !isTraced) continue;
      const message = uncheckedBecause(record, config);
      if (message === undefined) continue;
      problems.push({
        file: displayPath(path.join(directory, record?.artifact.path ?? String(version.version))),
        message,
        hint: `run "${traceCommand(directory, '--version', String(version.version))}", which checks it thoroughly${record === undefined ? `; or, to publish the file, delete ${TRACE_FILE}` : ''}`,
      });
    }
  }
  if (problems.length > 0) throw new UserError('artifacts are not ready for a stack', { problems });
}

function uncheckedBecause(record: TraceRecord | undefined, config: ModelConfig): string | undefined {
  if (record === undefined)
    return 'has a file without its trace record, so it may never have been compared with PyTorch';
  if (record.isQuick) return 'was checked only quickly, which is enough for this machine alone';
  const { maxBatchSize, inputDims } = record;
  const { max_batch_size: batch = 0, input = [] } = config;
  if (!(batch <= maxBatchSize) || (batch === 0) !== (maxBatchSize === 0))
    return `was checked with max_batch_size ${maxBatchSize}, and ${YAML_FILE} now has ${batch}`;
  const allowed = input.map(({ dims = [], reshape }) => (reshape === undefined ? dims : (reshape.shape ?? [])));
  const isChecked = (dims: number[], index: number): boolean => {
    const checked = inputDims[index] ?? [];
    return dims.length === checked.length && dims.every((size, axis) => [-1, size].includes(checked[axis] ?? 0));
  };
  if (allowed.length === inputDims.length && allowed.every(isChecked)) return undefined;
  return `was checked with inputs of dims ${JSON.stringify(inputDims)}, and ${YAML_FILE} now allows ${JSON.stringify(allowed)}`;
}

/** The version that `npm run trace` makes: the newest that version_policy names, or 1. */
const tracedVersion = ({ version_policy: policy }: ModelConfig): number =>
  Math.max(...(policy?.specific?.versions ?? []), 0) || 1;

/** The record of the artifact in a version folder; undefined if no trace made the artifact. */
async function findRecord(root: string, { files }: ModelVersion): Promise<Placed | undefined> {
  for (const { key } of files.filter((file) => isTraceRecord(file.key))) {
    const record = readTraceRecord(path.join(root, key));
    const artifact = record?.artifact;
    // A copied version folder has the record of the other version.
    if (record === undefined || artifact === undefined || key !== `${artifact.path}.trace.json`) continue;
    return { key, changedAt: await getChangeTime(path.join(root, key)), record: { ...record, artifact } };
  }
  return undefined;
}

async function changesSince(root: string, { sources, otherFiles }: TraceRecord): Promise<string[]> {
  const changes: string[] = [];
  const written = otherFiles.map((file) => [file.path, file.sha256] as const);
  for (const [name, sha256] of [...Object.entries(sources), ...written].sort()) {
    if (name.startsWith(TRACING) || name === YAML_FILE) continue;
    const file = path.join(root, name);
    if (await exists(file)) {
      const now = await computeSha256(file).catch(() => undefined);
      if (now !== sha256) changes.push(`${name} ${now === undefined ? 'cannot be read' : 'changed'}`);
    } else if (!name.startsWith('../')) changes.push(`${name} was removed`);
  }
  return changes;
}

/** Whether the file has the recorded bytes. A file that is older than the record is not read (docs/decisions.md). */
async function isWhole(
  root: string,
  { path: name, bytes, sha256 }: RecordedFile,
  { changedAt }: Placed,
): Promise<boolean> {
  const file = path.join(root, name);
  const stat = await fs.stat(file, { bigint: true }).catch(() => undefined);
  if (stat?.isFile() !== true || Number(stat.size) !== bytes) return false;
  return sha256 === undefined || stat.ctimeNs < changedAt || (await computeSha256(file)) === sha256;
}

const getChangeTime = async (file: string): Promise<bigint> => (await fs.stat(file, { bigint: true })).ctimeNs;
