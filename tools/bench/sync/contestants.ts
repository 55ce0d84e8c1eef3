import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../../src/local/s3-server';
import { paths } from '../../../src/core/paths';
import type { Command } from './measure';
import type { Peers } from './peers';

/** A tool that uploads a folder to a bucket. */
export interface Contestant {
  name: string;
  /** Entries of one family are the same program with different settings; the best of them counts. */
  family: 'ours' | 's5cmd' | 'rclone' | 'aws';
  /** Makes `s3://bucket/prefix` equal to the folder `source`. */
  sync: (source: string, bucket: string, prefix: string) => Command;
}

export interface Surroundings {
  endpoint: string;
  python: string;
  peers: Peers;
  /** Home folder of the tools, so that the user's own settings do not affect the measurement. */
  home: string;
}

/** Name of our tool. */
export const OURS = 'sync-models';

const RCLONE_TUNING = ['--transfers=32', '--checkers=32', '--fast-list'];

/**
 * Our tool first, then each other tool with its default settings and with the fastest settings of its documentation.
 */
export function allContestants({ endpoint, python, peers, home }: Surroundings): Contestant[] {
  const env = baseEnvironment(home);
  const rclone = (name: string, flags: readonly string[]): Contestant => ({
    name,
    family: 'rclone',
    sync: (source, bucket, prefix) => ({
      argv: [peers.rclone, 'sync', ...flags, source, `target:${bucket}/${prefix}`],
      env: { ...env, ...rcloneEnvironment(endpoint) },
    }),
  });
  return [
    {
      name: OURS,
      family: 'ours',
      sync: (source, bucket, prefix) => ({ argv: syncModels(endpoint, source, bucket, prefix), env }),
    },
    {
      name: 's5cmd',
      family: 's5cmd',
      sync: (source, bucket, prefix) => ({
        argv: [peers.s5cmd, `--endpoint-url=${endpoint}`, 'sync', `${source}/`, `s3://${bucket}/${prefix}/`],
        env,
      }),
    },
    rclone('rclone', []),
    rclone('rclone, tuned', RCLONE_TUNING),
    rclone('rclone, tuned, by content', [...RCLONE_TUNING, '--checksum']),
    {
      name: 'aws s3 sync',
      family: 'aws',
      sync: (source, bucket, prefix) => ({
        argv: [
          python,
          peers.aws.program,
          `--endpoint-url=${endpoint}`,
          's3',
          'sync',
          '--only-show-errors',
          source,
          `s3://${bucket}/${prefix}`,
        ],
        env: { ...env, PYTHONPATH: peers.aws.packages },
      }),
    },
  ];
}

/** The command of `npm run sync-models`, without npm. */
export function syncModels(endpoint: string, source: string, bucket: string, prefix: string): string[] {
  return [...npmScript(OURS), '--repo', source, '--bucket', `s3://${bucket}/${prefix}`, '--endpoint-url', endpoint];
}

/** The command line of a script in package.json, `exec node [flags] scripts/run.mjs NAME`, with full paths. */
export function npmScript(name: string): string[] {
  const file = readFileSync(join(paths.root, 'package.json'), 'utf8');
  const { scripts } = JSON.parse(file) as { scripts: Record<string, string> };
  const [, , ...words] = (scripts[name] ?? '').split(' ');
  return [process.execPath, ...words.map((word) => (word.endsWith('.mjs') ? join(paths.root, word) : word))];
}

export function baseEnvironment(home: string): NodeJS.ProcessEnv {
  return {
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
