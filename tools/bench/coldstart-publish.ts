import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cleanup } from '../../src/core/cleanup';
import { generateControlKey, CONTROL_HEADER } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import { median, medianRatio, print, rounds } from './compare';
import { BUCKET, newReplica, startServer, type AgentReplica, type Context } from './coldstart-replica';
import { getConfig } from './coldstart-repository';
import { measure } from './sync-environment';
import { baseEnvironment, syncModelsCommand } from './tools';

const REPLICAS = [1, 3, 10];
const MODELS = ['first', 'second', 'third'];
const CHANGING = 'second';
const VERSION_BYTES = 8e6;
const POLL_MS = 50;

const AGENTS = 'sync-models';
const BY_HAND = 's5cmd cp, then a load on each';

/** Seconds from the start of the program. */
interface Published {
  /** Until the last replica serves the new version. */
  ready: number;
  /** Until the work is done. */
  finished: number;
}

/**
 * Measures the time from a new version of one of three models until 1, 3 and 10 replicas serve it: a publish to replicas with
 * agents, beside one PUT and a load by hand on servers that read S3 themselves.
 */
export async function publishToReplicas(context: Context): Promise<object> {
  const { directory, endpoint, repetitions, reduction, python, relay } = context;
  relay.setDistance({});
  const undo = new Cleanup();
  const bytes = Math.ceil(VERSION_BYTES / reduction);
  const source = join(directory, 'publish-source');
  const env = { ...baseEnvironment({ home: directory }), AWS_ENDPOINT_URL: endpoint };
  const run = (argv: readonly string[]): Promise<unknown> =>
    measure(python, { argv, env }, join(directory, 'publish.log'));
  let version = 1;
  /** That of the current release. */
  let published = 1;
  const replicas: AgentReplica[] = [];
  const servers: TritonHttpClient[] = [];
  const isServed = async (number: number): Promise<boolean> =>
    (await Promise.all(replicas.map((replica) => replica.client.modelReady(CHANGING, number)))).every(Boolean);
  const isLoaded = async (number: number): Promise<boolean> =>
    (await Promise.all(servers.map((client) => client.modelReady(CHANGING, number)))).every(Boolean);
  const publish = (...flags: string[]): Promise<unknown> =>
    run([...syncModelsCommand(endpoint, source, BUCKET, 'agents'), ...flags]);
  try {
    const byHand = context.repository('by-hand');
    for (const model of MODELS) {
      writeVersion(source, model, 1, bytes);
      await byHand.upload({ [`${model}/1/weights`]: bytes });
      await byHand.store.putBytes(`by-hand/${model}/config.pbtxt`, Buffer.from(getConfig({})));
    }
    await publish('--untried');
    const results: Record<string, Record<string, Published[]>> = {};
    for (const count of reduction > 1 ? REPLICAS.slice(0, 2) : REPLICAS) {
      for (let i = replicas.length; i < count; i += 1) {
        // The Service of a cluster needs 20 seconds before the first replica loads, if there are others.
        const replica = newReplica(context, 'agents', `publish-agent-${i}`, { 'leave-seconds': '0' });
        undo.defer(() => replica.stop());
        await replica.start();
        replicas.push(replica);
        const modelControlKey = generateControlKey();
        const repository = `s3://${endpoint}/${BUCKET}/by-hand`;
        const folder = join(directory, `by-hand-${i}`);
        const triton = await startServer(context.programs, folder, { repository, modelControlKey });
        undo.defer(() => triton.stop());
        const client = new TritonHttpClient(triton.httpUrl, { headers: { [CONTROL_HEADER]: modelControlKey } });
        undo.defer(() => client.close());
        servers.push(client);
      }
      await watch(published, isServed, () => Promise.resolve());
      const flags = replicas.flatMap(({ flags }) => flags);
      const samples = await rounds<Published>(
        new Map([
          [
            AGENTS,
            () => {
              published = version += 1;
              writeVersion(source, CHANGING, published, bytes);
              return watch(published, isServed, () => publish(...flags));
            },
          ],
          [
            BY_HAND,
            async () => {
              // Triton loads only what is newer, in whole seconds, than what it has loaded.
              await sleep(1100);
              const file = writeVersion(join(directory, 'by-hand-source'), CHANGING, (version += 1), bytes);
              const key = `s3://${BUCKET}/by-hand/${CHANGING}/${version}/weights`;
              return watch(version, isLoaded, async () => {
                await run([context.s5cmd, `--endpoint-url=${endpoint}`, 'cp', file, key]);
                await Promise.all(servers.map((client) => client.loadModel(CHANGING)));
              });
            },
          ],
        ]),
        repetitions,
        (round, name) => context.onRun(round, `${count} replicas: ${name}`),
      );
      results[String(count)] = Object.fromEntries(samples);
    }
    report(bytes, results);
    return { versionBytes: bytes, replicas: results };
  } finally {
    await undo.run();
  }
}

/** @returns the file of the version */
function writeVersion(source: string, model: string, version: number, bytes: number): string {
  const folder = join(source, model);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, String(version)), { recursive: true });
  writeFileSync(join(folder, 'config.pbtxt'), getConfig({}));
  const file = join(folder, String(version), 'weights');
  writeFileSync(file, randomBytes(bytes));
  return file;
}

function report(bytes: number, results: Readonly<Record<string, Record<string, Published[]>>>): void {
  const column = (samples: Published[] | undefined, what: keyof Published): number[] =>
    (samples ?? []).map((one) => one[what]);
  print(
    `a new version of ${bytes} bytes of one of three models`,
    ['replicas', 'way', 'until READY on all', 'until finished', 'of the time by hand'],
    Object.entries(results).flatMap(([count, ways]) =>
      Object.entries(ways).map(([name, samples]) => [
        count,
        name,
        `${median(column(samples, 'ready')).toFixed(2)} s`,
        `${median(column(samples, 'finished')).toFixed(2)} s`,
        medianRatio(column(samples, 'ready'), column(ways[BY_HAND], 'ready')).toFixed(2),
      ]),
    ),
  );
}

async function watch(
  version: number,
  serves: (version: number) => Promise<boolean>,
  work: () => Promise<unknown>,
): Promise<Published> {
  const started = performance.now();
  const seconds = (): number => (performance.now() - started) / 1000;
  let finished: number | undefined;
  let ready = NaN;
  const watching = (async () => {
    for (;;) {
      if (await serves(version)) return void (ready = seconds());
      if (finished !== undefined && seconds() > finished + LATE_SECONDS) {
        throw new Error(`version ${version} is not READY`);
      }
      await sleep(POLL_MS);
    }
  })();
  watching.catch(() => undefined);
  await work().finally(() => (finished = seconds()));
  await watching;
  return { ready, finished: finished ?? NaN };
}

/** Time for new replicas to serve the current release. */
const LATE_SECONDS = 60;
