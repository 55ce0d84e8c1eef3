import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { exec } from '../../../src/core/exec';
import type { Progress } from '../../../src/cli/progress';
import {
  ensureKubernetesPlugin,
  ensureLanguageHost,
  ensurePulumi,
  findInstalledPlugin,
  installPlugin,
  packageVersion,
  type ResourcePlugin,
} from '../../toolchain/pulumi';
import { whyNoGo } from '../../toolchain/go';
import { rounds } from '../rounds';
import { makeProjects, STACK } from './projects';
import { startSts } from './sts';
import { summarize, type PreviewResult, type PreviewSample } from './summary';

/**
 * Times the first `pulumi preview` of the stack staging. Compares it with an empty program, and with a program that
 * only creates the two providers, on the same engine. Sends no request to AWS and needs no cluster.
 * @throws UserError if the AWS plugin is missing or a preview fails
 */
export async function benchPreview(repetitions: number, progress: Progress): Promise<PreviewResult> {
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  const sts = await startSts();
  try {
    const engine = await progress.run('Pulumi and its plugins', () => prepareEngine(scratch, sts.env));
    const projects = Object.entries(makeProjects(scratch));
    for (const [, directory] of projects) await engine.run(directory, 'stack', 'init', STACK);
    const entries = new Map(projects.map(([name, directory]) => [name, () => engine.preview(directory)]));
    const samples = await progress.run('previews', (step) =>
      rounds(entries, repetitions, (round, name) => step.update(`round ${round}: ${name}`)),
    );
    return summarize(samples);
  } finally {
    sts.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Returns the reason why the preview cannot be measured here, or undefined. */
export function whyNoPreview(): string | undefined {
  const { version, plugin } = awsPlugin();
  if (plugin === undefined) {
    return `Pulumi's AWS plugin is not installed: pulumi plugin install resource aws ${version}`;
  }
  return whyNoGo(['pulumi', 'pulumi-kubernetes', 'pulumi-language-nodejs']);
}

function awsPlugin(): { version: string; plugin: ResourcePlugin | undefined } {
  const version = packageVersion('@pulumi/aws');
  return { version, plugin: findInstalledPlugin('aws', version) };
}

interface Engine {
  run(directory: string, ...args: string[]): Promise<void>;
  preview(directory: string): Promise<PreviewSample>;
}

/** Prepares a Pulumi that keeps all its files in the scratch folder. */
async function prepareEngine(scratch: string, more: NodeJS.ProcessEnv): Promise<Engine> {
  const pulumi = await ensurePulumi();
  const host = await ensureLanguageHost(pulumi);
  const { version, plugin: aws } = awsPlugin();
  if (aws === undefined) {
    throw new UserError(`Pulumi's AWS plugin ${version} is not installed`, {
      hint: `pulumi plugin install resource aws ${version}`,
    });
  }
  const [home, backend] = [join(scratch, 'home'), join(scratch, 'state')];
  for (const folder of [home, backend]) mkdirSync(folder);
  for (const plugin of [aws, await ensureKubernetesPlugin()]) installPlugin(home, plugin);
  const started = join(scratch, 'started');
  const marker = join(scratch, 'marker.cjs');
  writeFileSync(marker, markerText(started));
  const programs = [host, pulumi].filter((path) => isAbsolute(path)).map((path) => dirname(path));
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    ...more,
    PATH: [...programs, process.env['PATH']].join(delimiter),
    PULUMI_HOME: home,
    PULUMI_BACKEND_URL: `file://${backend}`,
    PULUMI_CONFIG_PASSPHRASE: 'of a benchmark',
    PULUMI_SKIP_UPDATE_CHECK: 'true',
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: 'true',
    NODE_OPTIONS: `--require ${marker}`,
  };
  const run = async (directory: string, ...args: string[]): Promise<void> => {
    await exec(pulumi, [...args, '--non-interactive', '--color', 'never'], { cwd: directory, env });
  };
  const preview = async (directory: string): Promise<PreviewSample> => {
    const before = performance.now();
    await run(directory, 'preview', '--stack', STACK);
    const end = performance.now();
    const programStart = Number(readFileSync(started, 'utf8'));
    return {
      seconds: (end - before) / 1000,
      fromProgramSeconds: (performance.timeOrigin + end - programStart) / 1000,
    };
  };
  return { run, preview };
}

/** A script that records the start time of the program, but not of other Node processes of Pulumi. */
const markerText = (file: string): string => `if (/pulumi.cmd.run/.test(process.argv[1] ?? '')) {
  require('node:fs').writeFileSync(${JSON.stringify(file)}, String(performance.timeOrigin));
}
`;
