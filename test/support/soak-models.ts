import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PART_BYTES } from '../../src/s3/store';
import { sha256, type Expected, type ModelState } from './consistency-checker';
import type { SeededRandom } from './soak';

/** Path in the repository -> content. */
export type Files = Record<string, string | Buffer>;

const TENSORS = (label: string): string => `input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 ${label} }
`;

/** A model of an unknown backend, so that its files may have any content. */
function model(name: string, versions: number[], files: Files, labels?: string): Files {
  const label = labels === undefined ? '' : 'label_filename: "labels.txt"';
  const inFolder = Object.entries(files).map(([path, content]) => [`${name}/${path}`, content]);
  return {
    [`${name}/config.pbtxt`]: `backend: "anything"\n${TENSORS(label)}version_policy { specific { versions: [${versions.join(', ')}] } }\n`,
    ...(labels === undefined ? {} : { [`${name}/labels.txt`]: labels }),
    ...(Object.fromEntries(inFolder) as Files),
  };
}

function ensemble(name: string, steps: string[]): Files {
  const tensor = (i: number): string => (i === 0 ? 'x' : i === steps.length ? 'y' : `t${i}`);
  const text = steps.map(
    (step, i) =>
      `step { model_name: "${step}" model_version: -1 input_map { key: "x" value: "${tensor(i)}" } output_map { key: "y" value: "${tensor(i + 1)}" } }`,
  );
  return {
    [`${name}/config.pbtxt`]: `platform: "ensemble"\n${TENSORS('')}ensemble_scheduling {\n${text.join('\n')}\n}\n`,
    [`${name}/1/.keep`]: 'An ensemble has no file.\n',
  };
}

/** Several files of a version, some of them in a folder. */
const several = (version: number, random: SeededRandom): Files => ({
  [`${version}/weights.bin`]: random.bytes(70_000),
  [`${version}/tokens/vocabulary.txt`]: `words of version ${version}\n`.repeat(99),
  [`${version}/tokens/merges.txt`]: `merges of version ${version}\n`,
  [`${version}/empty`]: '',
});

/**
 * Two states of a model repository. The second one adds a version to a model, replaces a version of another model, adds
 * models (an ensemble, and one with a file that is uploaded in three parts), and removes models.
 */
export function twoStates(random: SeededRandom): { old: Files; next: Files } {
  const added = { '1/weights.bin': random.bytes(5000) };
  const one = several(1, random);
  return {
    old: {
      ...model('added', [1], added),
      ...model('switched', [1], one, 'cat\ndog\n'),
      // A listing has the model of the ensemble's step before the ensemble, so a naive deletion would delete it first.
      ...model('goes', [1], { '1/weights.bin': random.bytes(3000) }),
      ...ensemble('goes_too', ['goes', 'added']),
    },
    next: {
      ...model('added', [1, 2], { ...added, '2/weights.bin': random.bytes(5000) }),
      ...model('switched', [2], several(2, random), 'cat\nwolf\n'),
      ...model('large', [1], { '1/weights.bin': random.bytes(2 * PART_BYTES + 1000), '1/more.bin': random.bytes(10) }),
      ...ensemble('comes', ['large', 'switched']),
    },
  };
}

/** A team's state of the repository twoStates().old: models with the same names, and the team's files in `version`. */
export function stateOfTeam(base: Files, team: string, version: number, random: SeededRandom): Files {
  const added = { '1/weights.bin': base['added/1/weights.bin'] as Buffer };
  return {
    ...base,
    ...model('added', [1, version], { ...added, [`${version}/weights.bin`]: random.bytes(5000) }),
    ...model('switched', [version], several(version, random), `${team}\nwolf\n`),
    ...model('large', [version], { [`${version}/weights.bin`]: random.bytes(PART_BYTES + 1000) }),
    ...ensemble(`of_${team}`, ['large', 'switched']),
  };
}

export function writeFiles(directory: string, files: Files): string {
  for (const [path, content] of Object.entries(files)) {
    const file = join(directory, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return directory;
}

/** Published files, and the configurations in the bucket: model -> text of its config.pbtxt. */
export interface PublishedState {
  files: Files;
  configs: ReadonlyMap<string, string>;
}

/** Allowed states while a repository changes from one of these states to another. */
export function expectedBetween(states: readonly PublishedState[]): Expected {
  const expected: Expected = { models: new Map(), beside: new Map() };
  for (const name of new Set(states.flatMap(({ configs }) => [...configs.keys()]))) {
    expected.models.set(
      name,
      states.map(({ files, configs }) => getState(name, configs.get(name), files)),
    );
  }
  for (const [path, content] of states.flatMap(({ files }) => Object.entries(files))) {
    if (isInVersion(path) || path.endsWith('config.pbtxt')) continue;
    expected.beside.set(path, [...(expected.beside.get(path) ?? []), sha256(content)]);
  }
  return expected;
}

function getState(name: string, config: string | undefined, files: Files): ModelState {
  const versions = servedBy(config ?? '');
  const needs = Object.entries(files)
    .filter(([path]) => versions.some((version) => path.startsWith(`${name}/${version}/`)))
    .map(([path, content]): [string, string] => [path, sha256(content)]);
  for (const version of versions) {
    if (!needs.some(([path]) => path.startsWith(`${name}/${version}/`))) {
      throw new Error(`${name} is published to serve version "${version}", which its folder does not have`);
    }
  }
  const steps = [...(config ?? '').matchAll(/model_name: "(\w+)"/g)].map(([, step = '']) => step);
  return { config, needs: new Map(needs), composedOf: steps };
}

const isInVersion = (path: string): boolean => /^\w+\/\d+\//.test(path);

/** The versions that a published configuration names explicitly, as it must. */
function servedBy(config: string): string[] {
  if (config === '') return [];
  const versions = [...config.matchAll(/^ *versions: (\d+)$/gm)].map(([, version = '']) => version);
  if (versions.length === 0) throw new Error(`a published configuration names no versions:\n${config}`);
  return versions;
}
