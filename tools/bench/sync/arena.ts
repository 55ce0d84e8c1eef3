import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { exec } from '../../../src/core/exec';
import { allContestants, baseEnvironment, type Contestant } from './contestants';
import { makeRepository, type RepositoryShape } from './data';
import { measure, type Command, type Sample } from './measure';
import type { Peers } from './peers';
import { startBenchServer, type BenchServer } from './server';

export const BUCKET = 'bench';

/** The environment of the benchmark: one S3 server and the source folders, the same for all tools. */
export class Arena {
  private constructor(
    readonly directory: string,
    readonly python: string,
    readonly peers: Peers,
    readonly server: BenchServer,
    readonly contestants: readonly Contestant[],
    /** Environment variables of the tools. */
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** @param accessLog file to which each request is logged */
  static async open(directory: string, python: string, peers: Peers, accessLog?: string): Promise<Arena> {
    const home = join(directory, 'home');
    mkdirSync(home, { recursive: true });
    const server = await startBenchServer(directory, python, accessLog === undefined ? {} : { accessLog });
    const contestants = allContestants({ endpoint: server.endpoint, python, peers, home });
    const arena = new Arena(directory, python, peers, server, contestants, baseEnvironment(home));
    try {
      const makeBucket = [peers.s5cmd, `--endpoint-url=${server.endpoint}`, 'mb', `s3://${BUCKET}`];
      await arena.measure({ argv: makeBucket, env: arena.env });
      return arena;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** Stops the server and deletes its data. */
  async close(): Promise<void> {
    await this.server.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Our tool. */
  get ours(): Contestant {
    return this.contestants.find(({ family }) => family === 'ours') as Contestant;
  }

  async measure(command: Command): Promise<Sample> {
    // Flushes earlier writes, so that they do not reach the disk during this run.
    await exec('sync', []);
    return measure(this.python, command, join(this.directory, 'command.log'));
  }

  sync(contestant: Contestant, source: string, prefix: string): Promise<Sample> {
    return this.measure(contestant.sync(source, BUCKET, prefix));
  }

  /** Folder of the objects under `prefix`, on the server's disk. */
  objects(prefix: string): string {
    return join(this.server.data, BUCKET, prefix);
  }

  /** Deletes everything under `prefix`, and our objects beside it (PREFIX.releases and the like). */
  remove(prefix: string): void {
    const bucket = join(this.server.data, BUCKET);
    for (const name of readdirSync(bucket)) {
      if (name === prefix || name.startsWith(`${prefix}.`)) rmSync(join(bucket, name), { recursive: true });
    }
  }

  /** @throws UserError unless every file of `source` is under `prefix` with the same size */
  requireComplete(contestant: Contestant, source: string, prefix: string): void {
    for (const entry of readdirSync(source, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      const object = join(this.objects(prefix), path.slice(source.length));
      // We publish a completed config.pbtxt, whose size differs from the file in the folder.
      if (existsSync(object) && (entry.name === 'config.pbtxt' || statSync(object).size === statSync(path).size)) {
        continue;
      }
      throw new UserError(`${contestant.name} did not bring ${path} to s3://${BUCKET}/${prefix}`);
    }
  }
}

/** Creates source repositories and shares them between measurements with the same name. */
export class Sources {
  constructor(private readonly directory: string) {}

  get(name: string, shape: RepositoryShape): string {
    const directory = join(this.directory, name);
    if (!existsSync(directory)) makeRepository(directory, shape);
    return directory;
  }
}

/** Converts a name for use in an object key. */
export const slug = (name: string): string => name.replaceAll(/[^\w]+/g, '-');
