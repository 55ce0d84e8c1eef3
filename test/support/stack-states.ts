import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { TestStack } from './stack';

const DIRECTORY = join(paths.root, 'test', 'data', 'states');

/** A resource in an exported state. Only the fields that are shortened have a type here. */
interface ExportedResource {
  type: string;
  outputs?: Record<string, unknown>;
}

interface Exported {
  deployment: { resources?: ExportedResource[] };
}

/** The texts of one cluster that differ in each run, and what the file contains instead. */
export type Replacements = readonly (readonly [text: string, constant: string])[];

/** Writes the state of a deployed stack to test/data/states/NAME.json, one resource per line and without random values. */
export async function saveState(stack: TestStack, name: string, replacements: Replacements): Promise<void> {
  const { deployment } = JSON.parse(
    await stack.pulumi('stack', 'export', '--stack', stack.name, '--show-secrets'),
  ) as Exported;
  const lines = (deployment.resources ?? []).map((resource) => JSON.stringify(shorten(resource)));
  let text = `[\n${lines.join(',\n')}\n]\n`;
  for (const [from, to] of replacements) text = text.replaceAll(from, to);
  writeFileSync(join(DIRECTORY, `${name}.json`), text);
}

/** Without what no preview reads: times, places in the program, and Kubernetes' own bookkeeping. */
function shorten(resource: ExportedResource): object {
  const { outputs } = resource;
  const metadata = { ...(outputs?.['metadata'] as object | undefined), managedFields: undefined };
  return {
    ...resource,
    outputs: resource.type.startsWith('kubernetes:') ? { ...outputs, metadata, status: undefined } : outputs,
    created: undefined,
    modified: undefined,
    sourcePosition: undefined,
  };
}

/** Gives a new stack the state of test/data/states/NAME.json. */
export async function loadState(stack: TestStack, name: string): Promise<void> {
  // The state of a new stack contains the key that encrypts its secrets.
  const empty = JSON.parse(await stack.pulumi('stack', 'export', '--stack', stack.name)) as Exported;
  const resources = JSON.parse(readFileSync(join(DIRECTORY, `${name}.json`), 'utf8')) as ExportedResource[];
  const file = join(stack.directory, 'state.json');
  writeFileSync(file, JSON.stringify({ ...empty, deployment: { ...empty.deployment, resources } }));
  await stack.pulumi('stack', 'import', '--stack', stack.name, '--file', file);
}

/** The section of CHANGELOG.md with the changes since the last release. */
export function unreleased(): string {
  const text = readFileSync(join(paths.root, 'CHANGELOG.md'), 'utf8');
  return text.split(/^## /m).find((section) => section.startsWith('[Unreleased]')) ?? '';
}
