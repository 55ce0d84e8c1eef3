import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { paths } from '../../../src/core/paths';
import { readDockerfile } from './read';

/** Folders that are not ours, hold data or are made by commands, and files that list versions of other things. */
const NOT_OURS = /^(node_modules|build|data|requirements|__pycache__|package-lock\.json|\.(?!ci$|github$).*|\d+)$/;
const LARGEST_TEXT_BYTES = 1_000_000;

function* textFiles(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (NOT_OURS.test(entry.name)) continue;
    if (entry.isDirectory()) yield* textFiles(path);
    else if (entry.isFile() && statSync(path).size <= LARGEST_TEXT_BYTES) yield path;
  }
}

function filesWith(pattern: RegExp): string[] {
  return [...textFiles(paths.root)]
    .filter((path) => pattern.test(readFileSync(path, 'utf8')))
    .map((path) => relative(paths.root, path));
}

const release = readDockerfile()
  .filter(({ name }) => name === 'ARG')
  .map(({ value }) => /^TRITON_RELEASE=(\d\d\.\d\d)$/.exec(value)?.[1]);

test('the Dockerfile names one release of Triton', () => {
  expect(release).toEqual([expect.stringMatching(/^\d\d\.(0[1-9]|1[0-2])$/)]);
});

/** What each release holds: a row of the Dockerfile's is one of them. */
const TABLES = ['docs/docker.md', 'python/triton-releases.json'];

test('no other file names it, but the table of releases and the page that shows it', () => {
  const [number = ''] = release;
  expect(filesWith(new RegExp(`(?<![\\d.])${number.replace('.', '\\.')}(?![\\d.])`))).toEqual([
    'Dockerfile',
    ...TABLES,
  ]);
});

test('no file names an image of another release', () => {
  expect(filesWith(/nvcr\.io\/nvidia\/\w+:\d/)).toEqual([]);
});
