import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { localDirectory } from '../../src/local/stack';
import { paths } from '../../src/core/paths';
import { freePorts } from '../../src/local/process/ports';
import { fences, type Fence } from './markdown';
import type { Scratch } from './temp-dir';
import { Terminal } from './terminal';

/** A copy of this package like a fresh clone, but with installed dependencies. */
function copyOfThePackage(scratch: Scratch): string {
  const copy = join(scratch.directory, 'package');
  const isLeftOut = (path: string): boolean =>
    /^(\.git|node_modules|build)$|^model-repo\/[^/]+\/(\d+\/model\.|\.tracing-)|__pycache__/.test(path);
  cpSync(paths.root, copy, { recursive: true, filter: (from) => !isLeftOut(relative(paths.root, from)) });
  symlinkSync(join(paths.root, 'node_modules'), join(copy, 'node_modules'));
  const repository = join(copy, 'model-repo');
  scratch.defer(() => rmSync(localDirectory(repository), { recursive: true, force: true }));
  return copy;
}

/** Replaces parts of the output that differ between runs: times, sizes, releases, the folder, widths of columns. */
function comparable(output: string, directory: string): string {
  return output
    .replaceAll(directory, '...')
    .replace(/\b\d{8}T\d{9}Z-[0-9a-f]{8}\b/g, 'RELEASE')
    .replace(/\b\d+ min \d+ s\b/g, 'SOME s')
    .replace(/\b[\d.]+ (ms|s|min|B|kB|MB)\b/g, 'SOME $1')
    .replace(/\bSOME (ms|s|min)\b/g, 'SOME TIME')
    .replace(/[ \t]+/g, ' ');
}

/**
 * Follows a page of docs/ from the first block to the last: writes its files, runs its commands, and checks for the
 * output that it shows.
 * @param skipped languages of blocks for other machines
 * @returns the blocks that were executed
 */
export async function walkThrough(scratch: Scratch, page: string, skipped: readonly string[] = []): Promise<Fence[]> {
  const blocks = fences(readFileSync(join(paths.root, 'docs', page), 'utf8')).filter(
    ({ language }) => !skipped.includes(language),
  );
  const directory = copyOfThePackage(scratch);
  const [http = 0, grpc = 0, metrics = 0, s3 = 0] = await freePorts(4);
  const flags = `--http-port ${http} --grpc-port ${grpc} --metrics-port ${metrics} --s3-port ${s3}`;
  // Only the ports differ, because those of the page may be in use.
  const withPorts = (text: string): string =>
    text
      .replace(/^npm run local -- .*$/gm, `$& ${flags}`)
      .replaceAll('127.0.0.1:8000', `127.0.0.1:${http}`)
      .replaceAll('127.0.0.1:9000', `127.0.0.1:${s3}`);
  const open = (name: string): Terminal => {
    const terminal = new Terminal(name, directory, scratch.directory);
    scratch.defer(() => terminal.close());
    return terminal;
  };
  const [first, second] = [open('first'), open('second')];
  let output = '';
  for (const { language, note, text, before } of blocks) {
    if (language === 'text' && note === '') {
      const said = comparable(output, directory);
      for (const line of text.trim().split('\n')) expect(said).toContain(comparable(withPorts(line), directory).trim());
    } else if (language !== 'sh') {
      // A rendered page does not show the note, so the text has to name the file.
      expect(before).toContain(`\`${note}\``);
      mkdirSync(dirname(join(directory, note)), { recursive: true });
      writeFileSync(join(directory, note), text);
    } else if (note === 'second terminal') {
      expect(before).toContain('In a second terminal');
      second.start(withPorts(text));
      output = await second.until('Ctrl-C stops everything.');
    } else {
      expect(note).toBe('');
      output = await first.run(withPorts(text));
    }
  }
  expect(await second.interrupt()).toBe(0);
  return blocks;
}
