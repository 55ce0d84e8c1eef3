import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { exec } from '../../src/core/exec';
import { ensureLanguageHost, ensurePulumi, installPlugin, type ResourcePlugin } from '../../tools/toolchain/pulumi';
import type { Scratch } from './temp-dir';

const PROJECT = 'serving';

export interface TestPulumi {
  /** Folder of the Pulumi project. */
  directory: string;
  /** Environment for Pulumi: PATH, location of the state, passphrase of secrets. */
  env: NodeJS.ProcessEnv;
  /**
   * Creates a stack that looks deployed: its state is imported without running a program.
   * @param secret outputs that are stored encrypted
   */
  createStack(name: string, outputs: Record<string, unknown>, secret?: Record<string, unknown>): Promise<void>;
}

/** Key and value that mark an encrypted value in a state. */
const SIGNATURE = '4dabf18193072939515e22adb298388d';
const SECRET = '1b47061264138c4ac30d75fd1eb44270';

/** A real Pulumi CLI, and an environment in which it changes nothing outside of the scratch folder. */
export async function pulumiEnvironment(scratch: Scratch): Promise<{ program: string; env: NodeJS.ProcessEnv }> {
  const program = await ensurePulumi();
  const home = join(scratch.directory, 'pulumi', 'home');
  const backend = join(scratch.directory, 'pulumi', 'state');
  const temporary = join(scratch.directory, 'pulumi', 'tmp');
  for (const path of [home, backend, temporary]) mkdirSync(path, { recursive: true });
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    PATH: [...(isAbsolute(program) ? [dirname(program)] : []), process.env['PATH']].join(delimiter),
    PULUMI_HOME: home,
    PULUMI_BACKEND_URL: `file://${backend}`,
    PULUMI_CONFIG_PASSPHRASE: 'of a test',
    PULUMI_SKIP_UPDATE_CHECK: 'true',
    // Providers leave kubeconfigs in the temporary folder.
    TMPDIR: temporary,
  };
  return { program, env };
}

/** The same for programs: with the language host, and with no providers but these. */
export async function programEnvironment(
  scratch: Scratch,
  { plugins, env: more = {} }: { plugins: readonly ResourcePlugin[]; env?: NodeJS.ProcessEnv },
): ReturnType<typeof pulumiEnvironment> {
  const { program, env } = await pulumiEnvironment(scratch);
  const host = await ensureLanguageHost(program);
  for (const plugin of plugins) installPlugin(env['PULUMI_HOME'] as string, plugin);
  const programs = [host, program].filter((path) => isAbsolute(path)).map((path) => dirname(path));
  return {
    program,
    env: {
      ...env,
      ...more,
      PATH: [...programs, more['PATH'] ?? process.env['PATH']].join(delimiter),
      // Fail on a missing plugin instead of downloading it.
      PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: 'true',
    },
  };
}

/** A Pulumi project whose stacks have given states, for commands that read them. */
export async function testPulumi(scratch: Scratch): Promise<TestPulumi> {
  const { program, env } = await pulumiEnvironment(scratch);
  const directory = join(scratch.directory, 'pulumi', 'project');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'Pulumi.yaml'), `name: ${PROJECT}\nruntime: nodejs\n`);
  const pulumi = async (...args: string[]): Promise<string> =>
    (await exec(program, [...args, '--non-interactive'], { cwd: directory, env })).stdout;
  const createStack: TestPulumi['createStack'] = async (name, outputs, secret = {}) => {
    await pulumi('stack', 'init', name);
    // The state of a new stack contains the key that encrypts its secrets.
    const state = JSON.parse(await pulumi('stack', 'export', '--stack', name)) as { deployment: object };
    const deployment = { ...state.deployment, resources: [rootResource(name, outputs, secret)] };
    const file = join(scratch.directory, 'pulumi', `${name}.json`);
    writeFileSync(file, JSON.stringify({ ...state, deployment }));
    await pulumi('stack', 'import', '--stack', name, '--file', file);
  };
  return { directory, env, createStack };
}

/** The resource of the stack itself, which has the outputs. */
function rootResource(stack: string, outputs: Record<string, unknown>, secret: Record<string, unknown>): object {
  const hidden: object = Object.fromEntries(
    Object.entries(secret).map(([name, value]) => [name, { [SIGNATURE]: SECRET, plaintext: JSON.stringify(value) }]),
  );
  return {
    urn: `urn:pulumi:${stack}::${PROJECT}::pulumi:pulumi:Stack::${PROJECT}-${stack}`,
    custom: false,
    type: 'pulumi:pulumi:Stack',
    outputs: { ...outputs, ...hidden },
  };
}
