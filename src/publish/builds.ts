import { createHash } from 'node:crypto';
import type { ExportedProgram } from '../model/programs';
import { releasesPrefix } from '../release/location';
import { FORMAT, count, object, parseObject, text } from '../release/format';
import { checksumOfFile, PreconditionFailedError } from '../s3/store';
import { AgentClient, type AgentSource } from './agent-client';
import type { DesiredFile, DesiredModel } from './desired';
import type { Bucket } from './releases';

/** A compiled program in the bucket, in `PREFIX.releases/builds`; this is the content of ID.json there. */
export interface Build {
  /** As checksumOfFile computes it. */
  checksum: string;
  bytes: number;
}

const readBuild = object<Build>({ checksum: text(), bytes: count() });

/** What was compiled, and for what, determines the key. No object is replaced. */
function getKey({ location }: Bucket, { sha256 }: ExportedProgram, target: string): string {
  const id = createHash('sha256').update(`${sha256}\0${target}`).digest('hex');
  return `${releasesPrefix(location)}/builds/${id}`;
}

/** @returns undefined if the program was not compiled for these replicas */
export async function findBuild(bucket: Bucket, program: ExportedProgram, target: string): Promise<Build | undefined> {
  const key = `${getKey(bucket, program, target)}.json`;
  const found = await bucket.store.get(key);
  return found && parseObject(found.body, key, readBuild);
}

/** Stores a compiled program. Its description follows it, so that no one finds a part of it. */
export async function storeBuild(
  bucket: Bucket,
  program: ExportedProgram,
  target: string,
  made: { file: string; bytes: number; difference: number; torch: string },
): Promise<void> {
  const { file, bytes, difference, torch } = made;
  const key = getKey(bucket, program, target);
  const checksum = await checksumOfFile(file, bytes);
  const forPeople = { model: program.model.name, program: program.sha256, target, torch, difference };
  const description = JSON.stringify({ format: FORMAT, checksum, bytes, ...forPeople });
  const condition = { ifAbsent: true } as const;
  // The name depends on the content, because a builder may have ended between the two, and the next makes other bytes.
  await isThere(bucket.store.putFile(toObject(key, checksum), { path: file, bytes }, { checksum, condition }));
  await isThere(bucket.store.putBytes(`${key}.json`, Buffer.from(description), condition));
}

/** Another builder may have been first. */
async function isThere(writing: Promise<unknown>): Promise<void> {
  await writing.catch((error: unknown) => {
    if (!(error instanceof PreconditionFailedError)) throw error;
  });
}

const toObject = (key: string, checksum: string): string =>
  `${key}.${checksum.replace(/[^A-Za-z0-9]/g, '').slice(0, 12)}`;

/** What the replicas run compiled models with, as the first agent that answers says; undefined if none does. */
export async function getTarget(agents: AgentSource | undefined): Promise<string | undefined> {
  for (const address of (await agents?.list()) ?? []) {
    const state = await new AgentClient(address).getState().catch(() => undefined);
    if (state !== undefined) return state.target;
  }
  return undefined;
}

/** A program, with what was compiled of it as a file of the version. */
type Built = ExportedProgram & { target: string; file: DesiredFile };

/** The programs that were compiled for these replicas. */
export async function findBuilds(
  programs: readonly ExportedProgram[],
  bucket: Bucket,
  target: string,
): Promise<Built[]> {
  const found: Built[] = [];
  for (const program of programs) {
    const build = await findBuild(bucket, program, target);
    if (build === undefined) continue;
    const { checksum, bytes } = build;
    const key = toObject(getKey(bucket, program, target), checksum);
    const source = { stored: { store: bucket.store, key } };
    found.push({ ...program, target, file: { path: program.artifact, bytes, checksum, source } });
  }
  return found;
}

/** Replaces the exported programs of a model by what was compiled of them. */
export function withBuilds(desired: DesiredModel, built: readonly Built[]): DesiredModel {
  const programs = built.filter(
    ({ model, version }) => model.name === desired.name && desired.served.includes(version),
  );
  if (programs.length === 0) return desired;
  const files = desired.files.flatMap((file) => {
    if (programs.some(({ dataFiles }) => dataFiles.includes(file.path))) return [];
    return [programs.find(({ key }) => key === file.path)?.file ?? file];
  });
  const compiled = programs.map(({ version, sha256, target }) => [version, { program: sha256, target }] as const);
  return { ...desired, files, compiled: Object.fromEntries(compiled) };
}
