import { appendFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { processIds, readProcess } from '../../src/local/process/proc';
import { ensureOtherHost, type OtherLanguage } from '../../tools/toolchain/pulumi';
import { programEnvironment } from './pulumi';
import type { Scratch } from './temp-dir';

/** Folder with PulumiPlugin.yaml. */
export const PLUGIN = join(paths.root, 'infra', 'package');

/** How a program gets the generated SDK, which is in its folder `sdk`. Newer language hosts do this: "pulumi package add". */
const LINKS: Readonly<Record<string, (program: PackageProgram) => Promise<void>>> = {
  nodejs: async (program) => {
    const types = join(program.directory, 'sdk', 'nodejs', 'types');
    // The host of 2025, built with Go 1.26 or newer, writes paths that are one folder off; the newer hosts do not.
    for (const file of readdirSync(types)) {
      const text = readFileSync(join(types, file), 'utf8');
      writeFileSync(join(types, file), text.replace(/from "\.\/(types\/|utilities")/g, 'from "../$1'));
    }
    await program.run('npm', 'install', '--no-audit', '--no-fund', './sdk/nodejs');
  },
  python: async (program) => {
    appendFileSync(join(program.directory, 'requirements.txt'), './sdk/python\n');
    await program.run('python3', '-m', 'venv', 'venv');
    await program.run(join('venv', 'bin', 'pip'), 'install', '--quiet', '-r', 'requirements.txt');
  },
  yaml: () => Promise.resolve(),
};

/** Variable by which the processes of a program are found. */
const MARK = 'TEST_PROGRAM';

/**
 * Ends processes that Pulumi started with a variable. The language hosts of 2025 leave the process of a plugin that is a
 * program; the newer hosts do not.
 * @param variable `NAME=VALUE`
 */
function endPlugins(variable: string): void {
  for (const pid of processIds()) {
    if (readProcess(pid, 'environ')?.split('\0').includes(variable) === true) process.kill(pid, 'SIGKILL');
  }
}

/** The environment of `programEnvironment`, with the hosts of other languages. */
export async function packageEnvironment(
  scratch: Scratch,
  languages: readonly OtherLanguage[],
  options: Parameters<typeof programEnvironment>[1],
): Promise<NodeJS.ProcessEnv> {
  const { program, env } = await programEnvironment(scratch, options);
  const hosts: string[] = [];
  for (const language of languages) hosts.push(await ensureOtherHost(program, language));
  const folders = hosts.filter((path) => isAbsolute(path)).map((path) => dirname(path));
  scratch.defer(() => endPlugins(`PULUMI_HOME=${env['PULUMI_HOME']}`));
  return { ...env, PATH: [...folders, env['PATH']].join(delimiter) };
}

/** A Pulumi program that uses the package of this repository. */
export class PackageProgram {
  private constructor(
    readonly directory: string,
    env: NodeJS.ProcessEnv,
  ) {
    this.env = { ...env, [MARK]: directory };
  }

  private readonly env: NodeJS.ProcessEnv;

  /**
   * Copies an example to `directory`, and installs what it imports.
   * @param runtime its language as Pulumi names it
   */
  static async copy(
    example: string,
    runtime: string,
    directory: string,
    env: NodeJS.ProcessEnv,
  ): Promise<PackageProgram> {
    cpSync(join(paths.root, 'examples', example), directory, { recursive: true });
    const program = new PackageProgram(directory, env);
    program.edit((text) => text.replace('../../infra/package', PLUGIN));
    if (runtime !== 'yaml') {
      await program.pulumi('package', 'gen-sdk', PLUGIN, '--language', runtime, '--local', '--out', 'sdk');
    }
    await LINKS[runtime]?.(program);
    await program.pulumi('stack', 'init', program.stack);
    return program;
  }

  get stack(): string {
    return basename(this.directory);
  }

  /** Changes Pulumi.yaml or another file. */
  edit(change: (text: string) => string, name = 'Pulumi.yaml'): void {
    const file = join(this.directory, name);
    writeFileSync(file, change(readFileSync(file, 'utf8')));
  }

  /** @returns what Pulumi printed */
  async pulumi(...args: string[]): Promise<string> {
    return this.run('pulumi', '--non-interactive', '--color', 'never', ...args).finally(() =>
      endPlugins(`${MARK}=${this.directory}`),
    );
  }

  /** The JSON that a command of Pulumi for the stack of this program prints. */
  async json<T>(...args: string[]): Promise<T> {
    const options = { cwd: this.directory, env: this.env };
    const { stdout } = await exec('pulumi', ['--non-interactive', ...args, '--stack', this.stack], options);
    return JSON.parse(stdout) as T;
  }

  async run(command: string, ...args: string[]): Promise<string> {
    try {
      const { stdout, stderr } = await exec(command, args, { cwd: this.directory, env: this.env });
      return stdout + stderr;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      const { stdout, stderr } = error.output;
      throw new Error(`${command} ${args.join(' ')}: ${error.exitCode}\n${stdout}\n${stderr}`, { cause: error });
    }
  }
}
