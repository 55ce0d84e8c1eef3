import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dump, load } from 'js-yaml';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { type ResourcePlugin, ensureKubernetesPlugin } from '../../tools/toolchain/pulumi';
import { programEnvironment } from './pulumi';
import type { Scratch } from './temp-dir';
import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import { whyNoGo } from '../../tools/toolchain/go';
import type { ControlPlane } from './control-plane';

/** Folders that pin the programs which a stack on a control plane needs. */
const ENGINES = ['kubernetes', 'kwok', 'pulumi', 'pulumi-kubernetes', 'pulumi-language-nodejs'];

/** Why this machine cannot run such a stack; undefined if it can. */
export function whyNoEngines(...more: string[]): string | undefined {
  return whyNoGo([...ENGINES, ...more]);
}

/** The same as in Pulumi.local.yaml and the defaults of TritonServer. */
export const NAMESPACE = 'triton';
export const DEPLOYMENT = 'triton';

/** Credentials of the local S3 server, which are not secret. */
export const LOCAL_KEYS = {
  's3.accessKeyId': LOCAL_CREDENTIALS.accessKeyId,
  's3.secretAccessKey': LOCAL_CREDENTIALS.secretAccessKey,
} as const;

/** Creates the `local` stack on a test's cluster. Nothing is deployed yet. */
export async function localStack(scratch: Scratch, plane: ControlPlane, config: StackConfig = {}): Promise<TestStack> {
  return TestStack.create(scratch, 'local', {
    plugins: [await ensureKubernetesPlugin()],
    config: {
      existingCluster: { context: 'admin' },
      gpusPerPod: 1,
      replicas: 2,
      modelRepository: 's3://model-repository/models',
      // A port without a server, because simulated pods send no requests.
      s3: { endpoint: 'http://127.0.0.1:9' },
      ...config,
    },
    secrets: { ...LOCAL_KEYS, 'existingCluster.kubeconfig': plane.access.kubeconfig() },
  });
}

/** Changes the kubeconfig of a stack, as users do. */
export const setKubeconfig = (stack: TestStack, text: string): Promise<string> =>
  stack.pulumi('config', 'set', '--stack', stack.name, '--secret', '--path', 'existingCluster.kubeconfig', '--', text);

const PROJECT = 'triton-serving';

/** Files and folders that the Pulumi program needs beside it. */
const LINKED = ['infra', 'model-repo', 'node_modules', 'package-lock.json', 'package.json', 'policy', 'scripts', 'src'];

/** Key -> value. Keys of this project have no namespace. */
export type StackConfig = Readonly<Record<string, unknown>>;

export interface StackOptions {
  plugins: readonly ResourcePlugin[];
  /** Keys of the stack file that differ from the one in the repository. */
  config?: StackConfig;
  /** Values that are encrypted, by key or path. */
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

/** The part of the exported state that tests read. */
interface State {
  resources?: StateResource[];
  pending_operations?: { type: string; resource: StateResource }[];
}

/** A step of an update. */
export interface Step {
  op: string;
  urn: string;
  /** Paths of the properties that change. */
  changed: string[];
}

/**
 * A stack of this project, run by a real Pulumi with real providers. The project is a separate folder with links to the
 * sources, so that tests change neither the stack files nor the state of the developer.
 */
export class TestStack {
  private constructor(
    private stackName: string,
    /** Folder of the project. */
    readonly directory: string,
    /** Environment for Pulumi. */
    readonly env: NodeJS.ProcessEnv,
    private readonly program: string,
  ) {}

  get name(): string {
    return this.stackName;
  }

  /** The state, in a folder. Beside it, Pulumi writes FILE.attrs, with content type and checksum, in place. */
  get stateFile(): string {
    const folder = fileURLToPath(this.env['PULUMI_BACKEND_URL'] ?? '');
    return join(folder, '.pulumi', 'stacks', PROJECT, `${this.name}.json`);
  }

  /** Renames the stack and its file, as "pulumi stack rename" does. */
  async rename(name: string): Promise<void> {
    await this.pulumi('stack', 'rename', name, '--stack', this.name);
    this.stackName = name;
  }

  /** Creates the stack with the configuration of the repository's stack file. Nothing is deployed yet. */
  static async create(scratch: Scratch, name: string, options: StackOptions): Promise<TestStack> {
    const { program, env } = await programEnvironment(scratch, options);
    const directory = join(scratch.directory, 'pulumi', `project-${name}`);
    mkdirSync(directory);
    for (const entry of LINKED) symlinkSync(join(paths.root, entry), join(directory, entry));
    for (const file of ['Pulumi.yaml', `Pulumi.${name}.yaml`, 'tsconfig.json']) {
      copyFileSync(join(paths.root, file), join(directory, file));
    }
    const stack = new TestStack(name, directory, env, program);
    await stack.pulumi('stack', 'init', name);
    stack.configure(options.config ?? {});
    for (const [key, value] of Object.entries(options.secrets ?? {})) {
      await stack.pulumi('config', 'set', '--stack', name, '--secret', '--path', key, '--', value);
    }
    return stack;
  }

  /**
   * Changes the stack file, which the next `up` applies. Undefined removes a value.
   * @returns the previous values, for another call of `configure`
   */
  configure(values: StackConfig, file = this.file): StackConfig {
    const text = load(readFileSync(file, 'utf8')) as { config?: Record<string, unknown> };
    const config = { ...text.config };
    const before: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(values)) {
      const key = name.includes(':') ? name : `${PROJECT}:${name}`;
      before[key] = config[key];
      config[key] = value;
    }
    writeFileSync(file, dump({ ...text, config: JSON.parse(JSON.stringify(config)) as object }));
    return before;
  }

  /** @returns what Pulumi printed */
  up(...flags: string[]): Promise<string> {
    return this.pulumi('up', '--stack', this.name, '--yes', '--skip-preview', ...flags);
  }

  /** The changes of the next `up`, and warnings, as printed. */
  async preview(...flags: string[]): Promise<string> {
    const { stdout, stderr } = await this.run('preview', '--stack', this.name, '--diff', ...flags);
    return stdout + stderr;
  }

  /** The steps of the next `up`. A replacement has several steps. */
  async changes(): Promise<{ op: string; urn: string }[]> {
    return (await this.changesOf([])).map(({ op, urn }) => ({ op, urn }));
  }

  /** Changes that were made without Pulumi, as steps that would undo them. */
  async drift(): Promise<Step[]> {
    // A preview also names each resource that it has only read.
    return (await this.changesOf(['--refresh'])).filter(({ op }) => op !== 'refresh');
  }

  private async changesOf(flags: readonly string[]): Promise<Step[]> {
    const text = await this.pulumi('preview', '--stack', this.name, '--json', '--show-replacement-steps', ...flags);
    const { steps = [] } = JSON.parse(text) as {
      steps?: {
        op: string;
        urn: string;
        oldState?: { retainOnDelete?: boolean };
        detailedDiff?: Record<string, unknown> | null;
      }[];
    };
    return steps
      .filter(({ op }) => op !== 'same' && op !== 'read')
      .map(({ op, urn, oldState, detailedDiff }) => ({
        // What is retained remains, without the stack.
        op: op === 'delete' && oldState?.retainOnDelete === true ? 'discard' : op,
        urn,
        changed: Object.keys(detailedDiff ?? {}),
      }));
  }

  /** The steps of the next `up`, as "OP TYPE". */
  async plan(): Promise<string[]> {
    return (await this.changes()).map(({ op, urn }) => `${op} ${urn.split('::')[2]?.split('$').at(-1) ?? ''}`);
  }

  /** Destroys the stack with a preview, as users do. The preview reports protected resources before any deletion. */
  destroy(...flags: string[]): Promise<string> {
    return this.pulumi('destroy', '--stack', this.name, '--yes', ...flags);
  }

  /** The outputs, secret ones included. */
  async outputs(): Promise<Record<string, unknown>> {
    const text = await this.pulumi('stack', 'output', '--stack', this.name, '--json', '--show-secrets');
    return JSON.parse(text) as Record<string, unknown>;
  }

  async resources(...flags: string[]): Promise<StateResource[]> {
    return (await this.readState(...flags)).resources ?? [];
  }

  /** Resources whose creation was interrupted. */
  async pendingCreates(): Promise<StateResource[]> {
    const { pending_operations: pending = [] } = await this.readState();
    return pending.flatMap(({ type, resource }) => (type === 'creating' ? [resource] : []));
  }

  private async readState(...flags: string[]): Promise<State> {
    const text = await this.pulumi('stack', 'export', '--stack', this.name, ...flags);
    return (JSON.parse(text) as { deployment: State }).deployment;
  }

  private get file(): string {
    return join(this.directory, `Pulumi.${this.name}.yaml`);
  }

  /** @returns what Pulumi wrote to stdout */
  async pulumi(...args: string[]): Promise<string> {
    return (await this.run(...args)).stdout;
  }

  private async run(...args: string[]): Promise<{ stdout: string; stderr: string }> {
    const options = { cwd: this.directory, env: this.env };
    try {
      return await exec(this.program, ['--non-interactive', '--color', 'never', ...args], options);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      // Pulumi reports errors on stdout, too.
      const { stdout, stderr } = error.output;
      throw new Error(`pulumi ${args.join(' ')}: exit code ${error.exitCode}\n${stdout}\n${stderr}`, { cause: error });
    }
  }
}
