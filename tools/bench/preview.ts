import { copyFileSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { whyNoGo } from '../toolchain/go';
import {
  ensureKubernetesPlugin,
  ensureLanguageHost,
  ensurePulumi,
  findInstalledPlugin,
  installPlugin,
  packageVersion,
  type ResourcePlugin,
} from '../toolchain/pulumi';
import { median, medianRatio, print, rounds } from './compare';
import { inScratch } from './scratch';

/**
 * Times the first `pulumi preview` of the stack staging. Compares it with an empty program, and with a program that
 * only creates the two providers, on the same engine. Sends no request to AWS and needs no cluster.
 * @throws UserError if the AWS plugin is missing or a preview fails
 */
export async function benchPreview(repetitions: number): Promise<object> {
  const progress = new Progress();
  return inScratch(async (scratch, undo) => {
    const sts = await startSts();
    undo.defer(() => sts.close());
    const engine = await progress.run('Pulumi and its plugins', () => prepareEngine(scratch, sts.env));
    const projects = Object.entries(makeProjects(scratch));
    for (const [, directory] of projects) await engine.run(directory, 'stack', 'init', STACK);
    const entries = new Map(projects.map(([name, directory]) => [name, () => engine.preview(directory)]));
    const samples = await progress.run('previews', (step) =>
      rounds(entries, repetitions, (round, name) => step.update(`round ${round}: ${name}`)),
    );
    const result = summarize(samples);
    printResult(result);
    return { repetitions, ...result };
  });
}

function printResult({ rows, beyondProviders, whole, overProviders }: PreviewResult): void {
  const times = Object.entries(rows).map(([name, { seconds, fromProgramSeconds }]) => [
    name,
    median(seconds).toFixed(2),
    median(fromProgramSeconds).toFixed(2),
  ]);
  print('pulumi preview', ['program', 'seconds', 'from the start of the program'], times);
  const ratios = [
    ['from the start of the program, without that of the providers', beyondProviders.emptySeconds, beyondProviders],
    ['whole pulumi preview, without the start of the providers', whole.emptySeconds, whole],
    ['whole pulumi preview, compared with the two providers', overProviders.providersSeconds, overProviders],
  ] as const;
  print(
    'staging compared with an empty program',
    ['measurement', 'staging', 'other', 'ratio'],
    ratios.map(([name, other, { stagingSeconds, ratio }]) => [
      name,
      stagingSeconds.toFixed(2),
      other.toFixed(2),
      ratio.toFixed(2),
    ]),
  );
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
    PULUMI_CONFIG_PASSPHRASE: 'benchmark',
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

/** Times of one preview. */
export interface PreviewSample {
  /** Duration of `pulumi preview`. */
  seconds: number;
  /** Time from the start of the program's Node process to the end. */
  fromProgramSeconds: number;
}

interface PreviewTimes {
  seconds: number[];
  fromProgramSeconds: number[];
}

export interface PreviewResult {
  /** One value for each round, by project. */
  rows: Record<Project, PreviewTimes>;
  /**
   * Medians of `staging` against `empty`, measured from the start of the program. In each round the time of the two
   * providers is subtracted.
   */
  beyondProviders: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** The same for the complete duration of `pulumi preview`. */
  whole: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** Medians of the complete durations of `staging` against `providers`, which includes the start of the providers. */
  overProviders: { stagingSeconds: number; providersSeconds: number; ratio: number };
}

/** @param samples by project, in the order of the rounds */
export function summarize(samples: ReadonlyMap<string, readonly PreviewSample[]>): PreviewResult {
  const row = (project: Project): PreviewTimes => {
    const own = samples.get(project) ?? [];
    return {
      seconds: own.map(({ seconds }) => seconds),
      fromProgramSeconds: own.map(({ fromProgramSeconds }) => fromProgramSeconds),
    };
  };
  const rows = { empty: row('empty'), providers: row('providers'), staging: row('staging') };
  return {
    rows,
    beyondProviders: beyond(rows, 'fromProgramSeconds'),
    whole: beyond(rows, 'seconds'),
    overProviders: {
      stagingSeconds: median(rows.staging.seconds),
      providersSeconds: median(rows.providers.seconds),
      ratio: medianRatio(rows.staging.seconds, rows.providers.seconds),
    },
  };
}

function beyond(rows: Record<Project, PreviewTimes>, what: keyof PreviewTimes): PreviewResult['whole'] {
  const { empty, providers, staging } = {
    empty: rows.empty[what],
    providers: rows.providers[what],
    staging: rows.staging[what],
  };
  // If both programs take the same time, noise can make the difference negative.
  const start = providers.map((seconds, round) => Math.max(0, seconds - (empty[round] ?? NaN)));
  const rest = staging.map((seconds, round) => seconds - (start[round] ?? NaN));
  return { stagingSeconds: median(rest), emptySeconds: median(empty), ratio: medianRatio(rest, empty) };
}

/** The measured stack. */
const STACK = 'staging';

const EMPTY = 'module.exports = {};\n';
const PROVIDERS = `const { Provider: Aws } = require('@pulumi/aws/provider');
const { Provider: Kubernetes } = require('@pulumi/kubernetes/provider');
new Aws('aws', { region: 'us-east-1' });
new Kubernetes('kubernetes', { renderYamlToDirectory: 'not-written' });
`;

/** The measured programs: an empty one, one with only the two providers, and the stack. */
type Project = 'empty' | 'providers' | 'staging';

/** Creates a folder for each project in `parent`. */
function makeProjects(parent: string): Record<Project, string> {
  return {
    empty: smallProject(parent, 'empty', EMPTY),
    providers: smallProject(parent, 'providers', PROVIDERS),
    staging: ownProject(join(parent, 'staging')),
  };
}

function smallProject(parent: string, name: Project, program: string): string {
  const directory = join(parent, name);
  mkdirSync(directory);
  const project = { name, main: 'index.cjs', runtime: { name: 'nodejs', options: { typescript: false } } };
  // JSON is valid YAML.
  writeFileSync(join(directory, 'Pulumi.yaml'), JSON.stringify(project));
  writeFileSync(join(directory, 'index.cjs'), program);
  for (const file of ['package.json', 'node_modules', 'scripts', 'src'])
    symlinkSync(join(paths.root, file), join(directory, file));
  return directory;
}

/** Links this project. The stack file is copied, because Pulumi writes to it. */
function ownProject(directory: string): string {
  mkdirSync(directory);
  for (const entry of readdirSync(paths.root)) {
    if (!entry.startsWith('Pulumi.') && entry !== '.git') symlinkSync(join(paths.root, entry), join(directory, entry));
  }
  for (const file of ['Pulumi.yaml', `Pulumi.${STACK}.yaml`])
    copyFileSync(join(paths.root, file), join(directory, file));
  return directory;
}

const IDENTITY = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::111122223333:user/bench</Arn><UserId>AIDA</UserId><Account>111122223333</Account>
</GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`;

/** A fake AWS for the only request of a first preview, GetCallerIdentity. */
interface Sts {
  /** Environment in which the AWS provider sends all requests to this server. */
  env: NodeJS.ProcessEnv;
  close(): void;
}

/** Starts the server on loopback. It rejects all other requests, which makes the preview fail. */
async function startSts(): Promise<Sts> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const known = body.includes('Action=GetCallerIdentity');
      response.writeHead(known ? 200 : 403, { 'content-type': 'text/xml' }).end(known ? IDENTITY : '');
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const env = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_ACCESS_KEY_ID: 'bench',
    AWS_SECRET_ACCESS_KEY: 'bench',
    // The user's own AWS configuration is not used.
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  return {
    env,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
