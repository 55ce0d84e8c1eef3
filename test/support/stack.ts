import { copyFileSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { exec } from '../../scripts/lib/exec';
import { paths } from '../../scripts/lib/paths';
import { ensureLanguageHost, installPlugin, type ResourcePlugin } from '../../scripts/lib/toolchain/pulumi';
import { pulumiEnvironment } from './pulumi';
import type { Scratch } from './scratch';

/** What a program of ours needs beside it. */
const LINKED = ['infra', 'model-repo', 'node_modules', 'package-lock.json', 'package.json', 'policy', 'scripts'];

export interface StackOptions {
  plugins: readonly ResourcePlugin[];
  /** Keys of the stack file that differ from the one in the repository; a path such as `cluster.context` is one too. */
  config?: Readonly<Record<string, string>>;
  /** The same, to be encrypted. */
  secrets?: Readonly<Record<string, string>>;
  env?: NodeJS.ProcessEnv;
}

export interface StateResource {
  urn: string;
  type: string;
  id?: string;
  inputs?: Record<string, unknown>;
  outputs?: Record<string, unknown>;
  protect?: boolean;
}

/**
 * A stack of this project, run by a real Pulumi with real providers. The project is a folder of its own that links to
 * the sources, so that neither stack files nor the state of whoever runs the tests is touched.
 */
export class TestStack {
  private constructor(
    readonly name: string,
    /** Folder of the project. */
    readonly directory: string,
    /** What Pulumi has to be run with. */
    readonly env: NodeJS.ProcessEnv,
    private readonly program: string,
  ) {}

  /** Makes the stack, with the stack file of the repository as its configuration. Nothing is deployed yet. */
  static async create(scratch: Scratch, name: string, options: StackOptions): Promise<TestStack> {
    const { program, env } = await pulumiEnvironment(scratch);
    const host = await ensureLanguageHost(program);
    for (const plugin of options.plugins) installPlugin(env['PULUMI_HOME'] as string, plugin);
    const directory = join(scratch.directory, 'pulumi', `project-${name}`);
    mkdirSync(directory);
    for (const entry of LINKED) symlinkSync(join(paths.root, entry), join(directory, entry));
    for (const file of ['Pulumi.yaml', `Pulumi.${name}.yaml`, 'tsconfig.json']) {
      copyFileSync(join(paths.root, file), join(directory, file));
    }
    const stack = new TestStack(
      name,
      directory,
      {
        ...env,
        PATH: [...(isAbsolute(host) ? [dirname(host)] : []), env['PATH']].join(delimiter),
        // A plugin that is missing is an error, not a download.
        PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: 'true',
        ...options.env,
      },
      program,
    );
    await stack.pulumi('stack', 'init', name);
    await stack.configure(options.config ?? {});
    await stack.configure(options.secrets ?? {}, '--secret');
    return stack;
  }

  /** Changes the configuration; the next `up` makes it so. */
  async configure(values: Readonly<Record<string, string>>, ...flags: string[]): Promise<void> {
    for (const [key, value] of Object.entries(values)) {
      await this.pulumi('config', 'set', '--stack', this.name, '--path', ...flags, key, '--', value);
    }
  }

  /** @returns what Pulumi printed */
  up(...flags: string[]): Promise<string> {
    return this.pulumi('up', '--stack', this.name, '--yes', '--skip-preview', ...flags);
  }

  /** What the next `up` would do. */
  preview(...flags: string[]): Promise<string> {
    return this.pulumi('preview', '--stack', this.name, '--diff', ...flags);
  }

  destroy(...flags: string[]): Promise<string> {
    return this.pulumi('destroy', '--stack', this.name, '--yes', '--skip-preview', ...flags);
  }

  /** The outputs, secret ones included. */
  async outputs(): Promise<Record<string, unknown>> {
    const text = await this.pulumi('stack', 'output', '--stack', this.name, '--json', '--show-secrets');
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** What the stack is made of, according to its state. */
  async resources(): Promise<StateResource[]> {
    const state = JSON.parse(await this.pulumi('stack', 'export', '--stack', this.name)) as {
      deployment: { resources?: StateResource[] };
    };
    return state.deployment.resources ?? [];
  }

  /** The stack file as it is now. */
  get file(): string {
    return readFileSync(join(this.directory, `Pulumi.${this.name}.yaml`), 'utf8');
  }

  async pulumi(...args: string[]): Promise<string> {
    const options = { cwd: this.directory, env: this.env };
    return (await exec(this.program, [...args, '--non-interactive', '--color', 'never'], options)).stdout;
  }
}
