import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixedReplicas } from '../../src/cluster/source';
import { Cleanup } from '../../src/core/cleanup';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { publish } from '../../src/publish/publish';
import { S3Store } from '../../src/s3/store';
import type { ControlAddress } from '../../src/triton/control-client';
import { CONTROL_HEADER, generateControlKey } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import { median, medianRatio, print, rounds } from './compare';
import { BUCKET, newReplica, startServer, type Context } from './coldstart-replica';
import { getConfig } from './coldstart-repository';

const REPLICAS = 3;
const VERSION_BYTES = 8e6;
const MODEL = 'm';
/** Publishers in direct mode wait before they replace a configuration that was written within the last seconds. */
const UNTIL_OLD_MS = 5000;
const POLL_MS = 50;

/** Seconds from the start of a publication. */
interface Published {
  /** Until the last replica serves the new version. */
  ready: number;
  /** Until the publisher has finished. */
  finished: number;
}

const AGENTS = 'agents';
const DIRECT = 'direct mode';

/** Publishes new versions to three replicas, with agents and in direct mode. */
export async function publishToThree(context: Context): Promise<object> {
  const { directory, endpoint, programs, repetitions, onRun } = context;
  const undo = new Cleanup();
  const store = new S3Store({
    bucket: BUCKET,
    endpointUrl: endpoint,
    region: LOCAL_REGION,
    credentials: LOCAL_CREDENTIALS,
  });
  undo.defer(() => store.close());
  const bytes = Math.ceil(VERSION_BYTES / context.reduction);
  const sources = { [AGENTS]: join(directory, 'source-agents'), [DIRECT]: join(directory, 'source-direct') };
  let version = 0;
  const write = (source: string): number => {
    version += 1;
    rmSync(source, { recursive: true, force: true });
    mkdirSync(join(source, MODEL, String(version)), { recursive: true });
    writeFileSync(join(source, MODEL, 'config.pbtxt'), getConfig({}));
    writeFileSync(join(source, MODEL, String(version), 'weights'), randomBytes(bytes));
    return version;
  };
  try {
    const agents = Array.from({ length: REPLICAS }, (_, i) => newReplica(context, 'agents', `agent-${i}`));
    agents.forEach((replica) => undo.defer(() => replica.stop()));
    const toAgents = async (to: typeof agents): Promise<void> => {
      await publish({
        repository: sources[AGENTS],
        store,
        location: { bucket: BUCKET, prefix: 'agents' },
        replicas: undefined,
        agents: {
          agents: { describe: () => AGENTS, list: () => Promise.resolve(to.map(({ address }) => address)) },
          migrate: false,
          plain: [],
        },
        // The first release makes the repository, before a replica starts.
        untried: to.length === 0,
        loadTimeoutMs: 120_000,
        lockTimeoutMs: 120_000,
      });
    };
    write(sources[AGENTS]);
    await toAgents([]);
    for (const replica of agents) await replica.start();

    const location = { bucket: BUCKET, prefix: 'direct' };
    const modelControlKey = generateControlKey();
    const direct = (servers?: readonly ControlAddress[]): Promise<unknown> =>
      publish({
        repository: sources[DIRECT],
        store,
        location,
        replicas: servers === undefined ? undefined : fixedReplicas(servers),
        loadTimeoutMs: 120_000,
        lockTimeoutMs: 120_000,
      });
    write(sources[DIRECT]);
    await direct();
    const clients: TritonHttpClient[] = [];
    const servers: ControlAddress[] = [];
    for (let i = 0; i < REPLICAS; i += 1) {
      const repository = `s3://${endpoint}/${BUCKET}/direct`;
      const triton = await startServer(programs, join(directory, `direct-${i}`), { repository, modelControlKey });
      undo.defer(() => triton.stop());
      const client = new TritonHttpClient(triton.httpUrl, { headers: { [CONTROL_HEADER]: modelControlKey } });
      undo.defer(() => client.close());
      clients.push(client);
      servers.push(triton.control);
    }
    const serves = async (number: number): Promise<boolean> =>
      (await Promise.all(clients.map((client) => client.modelReady(MODEL, number)))).every(Boolean);
    const agentsServe = async (number: number): Promise<boolean> => {
      const states = await Promise.all(agents.map((replica) => replica.getState()));
      return states.every(
        (state) => typeof state?.release === 'string' && state.models[0]?.versions.includes(number) === true,
      );
    };
    const samples = await rounds<Published>(
      new Map([
        [AGENTS, () => time(write(sources[AGENTS]), agentsServe, () => toAgents(agents))],
        [
          DIRECT,
          async () => {
            const number = write(sources[DIRECT]);
            await sleep(UNTIL_OLD_MS);
            return time(number, serves, () => direct(servers));
          },
        ],
      ]),
      repetitions,
      onRun,
    );
    const column = (name: string, what: keyof Published): number[] => (samples.get(name) ?? []).map((one) => one[what]);
    print(
      `a new version of ${bytes} bytes on ${REPLICAS} replicas`,
      ['mode', 'until READY', 'until the publisher has finished'],
      [...samples.keys()].map((name) => [
        name,
        `${median(column(name, 'ready')).toFixed(2)} s`,
        `${median(column(name, 'finished')).toFixed(2)} s`,
      ]),
    );
    const ratio = (what: keyof Published): number => medianRatio(column(AGENTS, what), column(DIRECT, what));
    print(
      'agents / direct mode',
      ['until', 'ratio'],
      [
        ['READY', ratio('ready').toFixed(2)],
        ['finished', ratio('finished').toFixed(2)],
      ],
    );
    return { versionBytes: bytes, samples: Object.fromEntries(samples) };
  } finally {
    await undo.run();
  }
}

async function time(
  version: number,
  serves: (version: number) => Promise<boolean>,
  work: () => Promise<unknown>,
): Promise<Published> {
  const started = performance.now();
  const seconds = (): number => (performance.now() - started) / 1000;
  const publisher = { isRunning: true };
  let ready = NaN;
  const watching = (async () => {
    while (Number.isNaN(ready)) {
      if (await serves(version)) ready = seconds();
      else if (publisher.isRunning) await sleep(POLL_MS);
      else throw new Error(`version ${version} is not READY after the publication`);
    }
  })();
  watching.catch(() => undefined);
  await work().finally(() => (publisher.isRunning = false));
  const finished = seconds();
  await watching;
  return { ready, finished };
}
