import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { HeadFile } from '../../src/publish/head-file';
import { publish } from '../../src/publish/publish';
import { repairHead } from '../../src/publish/repair-head';
import { repositoryStatus } from '../../src/publish/status';
import { FORMAT } from '../../src/release/format';
import { headKey, releaseKey } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';
import { writeRepository } from '../support/repository';
import { sourceOf } from '../support/publish';
import { RulePod } from '../support/rule-pod';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const CONFIG = 'backend: "anything"\ninstance_group [{ kind: KIND_CPU }]\nversion_policy { all {} }\n';
let store: S3Store;
beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'bucket');
}, 120_000);

/** A repository with one replica. */
async function start(prefix: string) {
  const location = { bucket: 'bucket', prefix };
  const pod = await RulePod.start(scratch, prefix, store, location);
  const agents = sourceOf([pod]);
  const head = headKey(location);
  const put = (text: string | Buffer) => store.putBytes(head, Buffer.from(text));
  return {
    ...{ location, pod, agents, head, put },
    publish: async (
      version: number,
      more: { agents?: typeof agents | undefined; untried?: boolean; trials?: object } = {},
    ): Promise<string> => {
      const repository = writeRepository(mkdtempSync(join(scratch.directory, 'r')), {
        'a/config.pbtxt': CONFIG,
        [`a/${version}/weights`]: 'A',
      });
      const options = { store, location, agents, repository, loadTimeoutMs: 20_000, waitMs: 20_000 };
      const { release } = await publish({ ...options, trials: { timeoutMs: 10_000 }, ...more });
      return release?.id as string;
    },
    repair: (more: { agents?: typeof agents | undefined; id?: string } = {}) =>
      repairHead(new HeadFile(store, location), { store, location, agents, ...more }),
    status: () => repositoryStatus({ store, location }, agents),
    read: async () => (await store.get(head))?.body as Buffer,
  };
}
type Started = Awaited<ReturnType<typeof start>>;

test.each<{ title: string; lose: (at: Started, before: Buffer) => Promise<unknown> }>([
  { title: 'is missing', lose: ({ head }) => store.delete([{ key: head }]) },
  { title: 'is no JSON', lose: ({ put }) => put('garbage') },
  { title: 'lacks its fields', lose: ({ put }) => put(JSON.stringify({ format: FORMAT })) },
  { title: 'is an earlier version', lose: ({ put }, before) => put(before) },
])('--repair writes head.json again if it $title, and the replica follows', async ({ title, lose }) => {
  const at = await start(title.replace(/\W/g, '-'));
  await at.publish(1);
  const before = await at.read();
  const second = await at.publish(2);
  await until('the agent has read it', () => at.pod.state.head?.generation === 2);
  await lose(at, before);
  const { release, generation } = await at.repair();
  expect(release).toBe(second);
  await until('the agent has read it', () => at.pod.state.head?.generation === generation);
  const third = await at.publish(3);
  expect(at.pod.state.release).toBe(third);
  expect(await at.repair()).toMatchObject({ release: third, generation: generation + 1 });
});

test('a publish is refused if head.json is missing after the first release, also without replicas', async () => {
  const at = await start('lost');
  const first = await at.publish(1);
  await store.delete([{ key: at.head }]);
  for (const more of [{}, { agents: undefined, untried: true }]) {
    await expect(at.publish(2, more)).rejects.toMatchObject({
      message: 's3://bucket/lost has releases, but lost.releases/head.json is missing',
      hint: expect.stringContaining('rollback -- --repair') as string,
    });
  }
  expect(await at.repair()).toMatchObject({ release: first });
});

test('a first publish that was refused leaves no release: neither --repair nor a new replica takes it', async () => {
  const at = await start('refused-first');
  await expect(at.publish(1, { trials: { timeoutMs: 1, firstMs: 1 } })).rejects.toThrow();
  await expect(at.repair()).rejects.toMatchObject({
    message: 'no replica has read refused-first.releases/head.json, so the release must be named',
    hint: expect.stringMatching(/^npm run rollback -- ID --repair; newest manifests, .*: \d{8}T/) as string,
  });
  expect(at.pod.state.problem).toBeNull();
  expect(at.pod.state.release).not.toMatch(/^\d/);
  await at.publish(1);
});

test('--repair asks every replica that is named, and accepts the release that the user names', async () => {
  const at = await start('named');
  const first = await at.publish(1);
  await at.publish(2);
  await store.delete([{ key: at.head }]);
  const gone = {
    describe: () => 'gone',
    list: () => Promise.resolve([{ name: 'gone', uid: '', url: 'http://127.0.0.1:9' }]),
  };
  await expect(at.repair({ agents: gone as never })).rejects.toThrow('the agent of gone does not answer');
  await expect(at.repair({ agents: undefined })).rejects.toThrow('so the release must be named');
  await expect(at.repair({ id: '20260101T000000000Z-00000000' })).rejects.toThrow('has no manifest of release 2026');
  const { generation } = await at.repair({ agents: undefined, id: first });
  await until('the agent follows', () => at.pod.state.head?.generation === generation);
});

test('--repair with the id of the release that an older head.json names writes a newer one', async () => {
  const at = await start('older');
  const first = await at.publish(1);
  const before = await at.read();
  await at.publish(2);
  await until('the agent has read it', () => at.pod.state.head?.generation === 2);
  await at.put(before);
  const { generation } = await at.repair({ id: first });
  expect(generation).toBeGreaterThan(2);
  await until('the agent follows', () => at.pod.state.release === first);
  await at.publish(3);
});

test('several first publishers wait for each other', async () => {
  const at = await start('together');
  await Promise.all([1, 2, 3].map((version) => at.publish(version)));
  await until('the agent has read it', () => at.pod.state.head?.generation === 3);
}, 60_000);

test('--repair chooses what the replicas have read, although many newer releases were refused', async () => {
  const at = await start('refused');
  await at.publish(1);
  const second = await at.publish(2);
  const body = (await store.get(releaseKey(at.location, second)))?.body.toString() as string;
  for (let i = 0; i < 60; i += 1) {
    const id = `29991231T235959${String(i).padStart(3, '0')}Z-00000000`;
    await store.putBytes(releaseKey(at.location, id), Buffer.from(body.replaceAll(second, id)));
  }
  await store.delete([{ key: at.head }]);
  expect(await at.repair()).toMatchObject({ release: second });
});

test('status reports a manifest that is not the published one, which a new replica would refuse', async () => {
  const at = await start('altered');
  const key = releaseKey(at.location, await at.publish(1));
  const body = (await store.get(key))?.body.toString() as string;
  await store.putBytes(key, Buffer.from(body.replace('"createdAt":"2', '"createdAt":"3')));
  await expect(at.status()).rejects.toThrow(/is not the manifest that was published/);
});

test('a publisher that was paused after its commit ends when another one has committed meanwhile', async () => {
  const at = await start('paused');
  await at.publish(1);
  let isPaused = false;
  const agents = {
    ...at.agents,
    list: async () => {
      if (!isPaused && (await at.read()).includes('"generation":2')) {
        isPaused = true;
        await at.publish(3);
      }
      return at.agents.list();
    },
  };
  await at.publish(2, { agents });
  expect(isPaused).toBe(true);
  expect(at.pod.state.head?.generation).toBe(3);
}, 60_000);
