import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, copyFileSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import type { Step } from '../../src/cli/progress';
import { cached, makeDirectory, requireFreeSpace } from '../../src/local/install/cache';

/** Contains a folder for each set of programs that share go.mod and go.sum. */
const PINS = join(paths.tools, 'toolchain', 'go');

/** A program that is published only as a Go module. */
export interface GoProgram {
  /** File name of the program, on PATH and in the cache. */
  name: string;
  /** Folder of tools/toolchain/go whose go.mod and go.sum pin the program and all its dependencies. */
  pins: string;
  /** The module that `go.mod` requires. Its version there is the version of the program. */
  module: string;
  /** The main package of this module; `.` for our own main.go beside go.mod. */
  package: string;
  /** Linker flags in addition to those that omit debug information. The version is as in go.mod: v1.2.3. */
  ldflags?: (version: string) => string;
  /** Build tags of the module. */
  tags?: readonly string[];
  /** Arguments that print the version. Without them a program on PATH is ignored. */
  versionArguments?: readonly string[];
  /** Files that our own main package embeds, generated from the module's folder: name -> content. */
  embeds?: (module: string) => Record<string, string>;
  /** Changes of the module's sources: file -> the replaced text, which the file contains once, and the new text. */
  patches?: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>>;
}

/** File of our own main packages. */
const MAIN = 'main.go';

/** Disk space for the module cache, compiler cache and program of the largest build. */
const BUILD_BYTES = 4e9;

/**
 * Returns the path of the program: the one on PATH if it has the pinned version, otherwise one that is built once into
 * the cache. The hashes in go.sum verify the sources, wherever they were downloaded from.
 * @throws UserError if Go is missing or too old, or modules cannot be downloaded
 */
export async function ensureGoProgram(program: GoProgram, step?: Step): Promise<string> {
  const pins = readPins(program);
  if (await isOnPath(program, pins.version)) return program.name;
  const name = `${program.name}-${pins.version}-${pins.digest}-${process.platform}-${process.arch}`;
  const directory = await cached(name, async (target) => {
    requireGo(program, pins.go);
    requireFreeSpace(target, BUILD_BYTES, `building ${program.name}`);
    step?.update(`building ${program.name} ${pins.version}`);
    const isChanged = program.embeds !== undefined || program.patches !== undefined;
    const directory = isChanged ? await gather(program, pins, target) : pins.directory;
    await build(program, { ...pins, directory }, join(target, program.name));
  });
  return join(directory, program.name);
}

/**
 * Returns the reason why the programs of `pins` cannot be built here, for tests that are then skipped; undefined if
 * they can. Runs Go in the folder of go.mod, because a Go can download the newer version that go.mod requires.
 */
export function whyNoGo(pins: readonly string[]): string | undefined {
  for (const name of pins) {
    const { error, status, stderr } = spawnSync('go', ['env', 'GOVERSION'], {
      encoding: 'utf8',
      cwd: join(PINS, name),
      env: goEnvironment(),
    });
    if (error !== undefined) return 'there is no Go on PATH';
    if (status !== 0) return `the Go on PATH will not do: ${stderr.trim().split('\n').at(-1)}`;
  }
  return undefined;
}

function requireGo(program: GoProgram, needed: string): void {
  const reason = whyNoGo([program.pins]);
  if (reason === undefined) return;
  throw new UserError(`${program.name} has to be built, and ${reason}`, {
    hint: `install Go ${needed} or newer (https://go.dev/doc/install), or put ${program.name} of the pinned version on PATH`,
  });
}

/** A downloaded module. */
export interface Module {
  directory: string;
  /** Version with its v. */
  version: string;
}

/**
 * Downloads the module that one of our go.mod files pins, for its files other than code.
 * @param pins folder of tools/toolchain/go
 * @throws UserError if the module cannot be downloaded
 */
export async function downloadModule(pins: string, module: string): Promise<Module> {
  try {
    const options = { cwd: join(PINS, pins), env: goEnvironment() };
    const { stdout } = await exec('go', ['mod', 'download', '-json', module], options);
    const { Dir: directory, Version: version } = JSON.parse(stdout) as { Dir: string; Version: string };
    return { directory, version };
  } catch (error) {
    throw explainBuild({ name: module }, error);
  }
}

/** Ignores a Go workspace around the checkout, and requires no C compiler. */
function goEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, GOWORK: 'off', CGO_ENABLED: '0' };
}

interface Pins {
  directory: string;
  /** Version of the program's module, with its v. */
  version: string;
  /** Oldest Go version that can build the program. */
  go: string;
  /** Digest of everything that affects the result. */
  digest: string;
}

function readPins(program: GoProgram): Pins {
  const directory = join(PINS, program.pins);
  const [mod, sum] = ['go.mod', 'go.sum'].map((file) => readFileSync(join(directory, file), 'utf8')) as [
    string,
    string,
  ];
  const find = (pattern: RegExp, what: string): string => {
    const found = pattern.exec(mod)?.[1];
    if (found === undefined) throw new Error(`${join(directory, 'go.mod')} has no ${what}`);
    return found;
  };
  const quoted = program.module.replaceAll('.', '\\.');
  const version = find(new RegExp(`^(?:require)?\\s*${quoted} (v\\S+)`, 'm'), `requirement of ${program.module}`);
  const main = program.package === '.' ? [readFileSync(join(directory, MAIN), 'utf8')] : [];
  const patches = program.patches === undefined ? [] : [JSON.stringify(program.patches)];
  const parts = [
    mod,
    sum,
    program.package,
    linkerFlags(program, version),
    ...main,
    ...patches,
    ...(program.tags ?? []),
  ];
  const digest = createHash('sha256').update(parts.join('\0'));
  return { directory, version, go: find(/^go (\S+)/m, 'go line'), digest: digest.digest('hex').slice(0, 12) };
}

async function isOnPath(program: GoProgram, version: string): Promise<boolean> {
  if (program.versionArguments === undefined) return false;
  try {
    const { stdout, stderr } = await exec(program.name, program.versionArguments);
    return saysVersion(stdout + stderr, version);
  } catch {
    return false; // Missing, or a different program with this name.
  }
}

/** Whether `text` contains the version, with or without its v, and not as the start of a longer version. */
function saysVersion(text: string, version: string): boolean {
  const plain = version.replace(/^v/, '').replaceAll('.', '\\.');
  return new RegExp(`(?<![\\d.])${plain}(?![\\d.]|-\\w)`).test(text);
}

function linkerFlags(program: GoProgram, version: string): string {
  return ['-s -w', program.ldflags?.(version) ?? ''].join(' ').trim();
}

/** Copies the pins, our own main package if there is one, its embedded files and the patched module into one folder. */
async function gather(program: GoProgram, pins: Pins, target: string): Promise<string> {
  const source = join(target, 'source');
  makeDirectory(source);
  const files = ['go.mod', 'go.sum', ...(program.package === '.' ? [MAIN] : [])];
  for (const file of files) copyFileSync(join(pins.directory, file), join(source, file));
  const { directory } = await downloadModule(program.pins, program.module);
  for (const [file, content] of Object.entries(program.embeds?.(directory) ?? {}))
    writeFileSync(join(source, file), content);
  if (program.patches !== undefined) {
    cpSync(directory, join(source, PATCHED), { recursive: true });
    applyPatches(join(source, PATCHED), program.patches);
    appendFileSync(join(source, 'go.mod'), `\nreplace ${program.module} => ./${PATCHED}\n`);
  }
  return source;
}

/** Folder with the patched copy of a module, because Go builds no changed files in its module cache. */
const PATCHED = 'patched';

function applyPatches(module: string, patches: NonNullable<GoProgram['patches']>): void {
  for (const [file, changes] of Object.entries(patches)) {
    const path = join(module, file);
    let text = readFileSync(path, 'utf8');
    for (const [from, to] of changes) {
      const parts = text.split(from);
      if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times, not once: ${from}`);
      text = parts.join(to);
    }
    chmodSync(path, 0o644); // Go makes the files of its module cache read-only.
    writeFileSync(path, text);
  }
}

async function build(program: GoProgram, pins: Pins, output: string): Promise<void> {
  // With readonly, a module that is missing in go.mod or go.sum is an error and is not added.
  const args = [
    'build',
    '-mod=readonly',
    '-trimpath',
    '-buildvcs=false',
    '-ldflags',
    linkerFlags(program, pins.version),
    ...(program.tags === undefined ? [] : ['-tags', program.tags.join(',')]),
  ];
  try {
    // With the lowest priority, because tests may run at the same time.
    await exec('nice', ['-n', '19', 'go', ...args, '-o', output, program.package], {
      cwd: pins.directory,
      env: goEnvironment(),
    });
  } catch (error) {
    throw explainBuild(program, error);
  }
}

/** Converts a failed command of Go to an error with the next step. */
function explainBuild({ name }: Pick<GoProgram, 'name'>, error: unknown): unknown {
  if (!(error instanceof CommandError)) return error;
  return new UserError(`${name} cannot be built: ${error.output.stderr.trim()}`, {
    hint: 'Go needs its module proxy (GOPROXY, HTTPS_PROXY), 4 GB of disk (XDG_CACHE_HOME, GOCACHE, GOMODCACHE), and modules with the checksums of go.sum (else: go clean -modcache)',
    cause: error,
  });
}
