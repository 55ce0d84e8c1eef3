import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { policyDocument, type PolicyStatement } from '../../infra/iam/policy-document';
import { prunerStatements, publisherStatements } from '../../infra/iam/repository-policies';
import { pruneReleases } from '../../src/commands/prune-command';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { archiveKey, releasesPrefix, tritonRepositoryUrl } from '../../src/release/location';
import { promote } from '../../src/publish/promote';
import { findMode } from '../../src/publish/trial/mode';
import { readHead } from '../../src/publish/release/release';
import { rollBack } from '../../src/publish/rollback';
import { repositoryStatus } from '../../src/publish/status';
import { Requester } from '../../src/s3/requester';
import type { S3Store } from '../../src/s3/store';
import { PUBLISHER_PERMISSIONS, READER_PERMISSIONS, TRITON_PERMISSIONS } from '../support/aws-permissions';
import { decide, type Call, type PolicyDocument } from '../support/iam';
import { publisher } from '../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { permissionsFor } from '../support/s3-permissions';
import { podSource, RulePod } from '../support/rule-pod';
import { Scratch } from '../support/temp-dir';
import { startRecordingProxy, type RecordingProxy } from '../support/recording-proxy';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'permissions-test', prefix: 'models' };
const PLACES = [`${LOCATION.prefix}/`, `${releasesPrefix(LOCATION)}/`];
const KEY = 'arn:aws:kms:eu-central-1:111122223333:key/1';
const repository = join(scratch.directory, 'repository');

let endpoint: string;

beforeAll(async () => {
  const server = await testS3(scratch);
  endpoint = server.endpoint;
  await openBucket(scratch, server.endpoint, LOCATION.bucket);
  await switchVersioningOn();
});

/** Sends a request that publishers never send. */
async function send(at: string, request: Omit<Parameters<Requester['send']>[0], 'read'>): Promise<void> {
  const requester = new Requester({
    bucket: LOCATION.bucket,
    endpointUrl: at,
    region: LOCAL_REGION,
    credentials: LOCAL_CREDENTIALS,
  });
  await requester.send({ ...request, read: () => undefined });
  requester.close();
}

const switchVersioningOn = (): Promise<void> =>
  send(endpoint, {
    what: 'switch versioning on',
    method: 'PUT',
    query: { versioning: '' },
    body: Buffer.from(
      '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>',
    ),
  });

async function tapped(): Promise<RecordingProxy> {
  const tap = await startRecordingProxy(endpoint);
  scratch.defer(() => tap.stop());
  return tap;
}

/** A store behind the tap. Rejected requests are not retried. */
const storeBehind = (tap: RecordingProxy): Promise<S3Store> =>
  openBucket(scratch, tap.endpoint, LOCATION.bucket, { create: false, attempts: 1 });

const getCalls = (tap: RecordingProxy): Call[] => tap.requests.flatMap((request) => permissionsFor(request, KEY));

/** The action and kind of resource of a call. Calls of the bucket are listings if they have a prefix. */
function getKind({ action, resource, context }: Call): string {
  if (resource === KEY) return `${action} of key`;
  if (resource.includes('/')) return `${action} of object`;
  return context?.['s3:prefix'] === undefined ? `${action} of bucket` : `${action} of listing`;
}

const kinds = (calls: readonly Call[]): string[] => [...new Set(calls.map(getKind))].sort();

/** Calls of resources outside of the repository and of the objects that the publisher stores beside it. */
function outside(calls: readonly Call[], places: readonly string[]): Call[] {
  const arns = places.map((place) => `arn:aws:s3:::${LOCATION.bucket}/${place}`);
  return calls.filter(({ resource, context }) => {
    const prefix = context?.['s3:prefix'];
    if (prefix !== undefined) return !places.some((place) => prefix.startsWith(place) || prefix === place.slice(0, -1));
    return resource.includes('/') && resource !== KEY && !arns.some((arn) => resource.startsWith(arn));
  });
}

test('the publisher needs exactly the listed permissions, only under its prefix', async () => {
  const tap = await tapped();
  const store = await storeBehind(tap);
  const { publish, options } = publisher(store, LOCATION, repository);
  writeRepository(repository, addingModel('small', { 1: 1 }));
  await publish();

  writeRepository(repository, {
    'large/config.pbtxt': 'backend: "anything"\nversion_policy { specific { versions: [1] } }\n',
    'large/1/model.pt': 'x',
  });
  const large = Buffer.alloc(20 * 1024 * 1024, 'weights ');
  writeFileSync(join(repository, 'large', '1', 'model.pt'), large);

  // Cut the connection when the upload is to be completed; the upload is then aborted.
  const cut = { onRequest: ({ method, path }: { method: string; path: string }) => !completes(method, path) };
  tap.set(cut);
  await expect(publish()).rejects.toThrow();
  tap.set({});
  await publish();

  // Replace the first version with another one, delete the first, and roll back to it.
  const current = async (): Promise<string | undefined> => (await readHead(store, LOCATION))?.release.id;
  const first = await current();
  rmSync(join(repository, 'small'), { recursive: true });
  writeRepository(repository, addingModel('small', { 2: 2 }));
  await publish({ prune: true });
  const second = await current();
  await rollBack(first, options());
  await repositoryStatus(store, LOCATION, undefined);

  // If an archived file was changed, the rollback deletes the copy that S3 made from it.
  for (const { key, bytes } of await store.list(archiveKey(LOCATION, ''))) {
    await store.putBytes(key, Buffer.alloc(bytes, '#'));
  }
  await expect(rollBack(second, options())).rejects.toThrow(/its content does not match its recorded checksum/);
  store.close();

  const calls = getCalls(tap);
  expect(kinds(calls)).toEqual(PUBLISHER_PERMISSIONS.map(({ action, of }) => `${action} of ${of}`).sort());
  expect(outside(calls, PLACES)).toEqual([]);
});

const completes = (method: string, path: string): boolean => method === 'POST' && path.includes('uploadId=');

const close = (): Promise<void> => Promise.resolve();

/** A policy in the form in which AWS gets it. */
const getPolicy = async (statements: PolicyStatement[]): Promise<PolicyDocument> =>
  JSON.parse(await new Promise<string>((resolve) => policyDocument(statements).apply(resolve))) as PolicyDocument;

test('publishing through agents needs the role of the publisher, and a prune that of the pruner', async () => {
  const location = { ...LOCATION, prefix: 'agents' };
  const place = { bucketArn: `arn:aws:s3:::${LOCATION.bucket}`, prefix: location.prefix, keyArn: KEY };
  const policies = {
    publisher: await getPolicy(publisherStatements(place)),
    pruner: await getPolicy(prunerStatements(place)),
  };
  const tap = await tapped();
  const refused = (policy: PolicyDocument): string[] =>
    getCalls(tap)
      .filter((call) => decide([policy], call) !== 'allowed')
      .map(({ action, resource }) => `${action} ${resource}`);
  const direct = await openBucket(scratch, endpoint, LOCATION.bucket, { create: false });
  const pod = await RulePod.start(scratch, 'pod', direct, location);
  const models = join(scratch.directory, 'for-agents');
  const store = await storeBehind(tap);
  const { publish, options } = publisher(store, location, models);
  const replicas = podSource(() => [pod]);
  const throughAgents = async () => ({ replicas, agents: await findMode(store, location, replicas) });
  const large = 'weights '.repeat(2_500_000);
  const config = 'backend: "anything"\nversion_policy { all {} }\n';
  const files = (version: number): Record<string, string> => ({
    'small/config.pbtxt': config,
    [`small/${version}/weights`]: String(version),
    'small/labels.txt': `labels of ${version}`,
    'large/config.pbtxt': config,
    'large/1/weights': large,
  });
  writeRepository(models, files(1));
  const first = await publish(await throughAgents());
  rmSync(models, { recursive: true });
  writeRepository(models, files(2));
  await publish(await throughAgents());
  await rollBack(first.release?.id, { ...options(), ...(await throughAgents()) });
  await repositoryStatus(store, location, replicas);

  // S3 copies from a repository that other roles may read.
  const source = { ...LOCATION, prefix: 'source' };
  writeRepository(models, { 'copied/config.pbtxt': config, 'copied/3/weights': '3' });
  await publisher(direct, source, models).publish();
  const from = { store: direct, location: source };
  await promote({ ...options(), ...(await throughAgents()), from });
  expect(getCalls(tap).length).toBeGreaterThan(50);
  const ofSource = new RegExp(`/source(\\.releases)?/`);
  expect(refused(policies.publisher).filter((call) => !ofSource.test(call))).toEqual([]);
  expect(refused(policies.pruner).filter((call) => !ofSource.test(call))).toEqual([]);

  // Two days and six releases later.
  tap.set({ clockOffsetMs: 2 * 24 * 3600 * 1000 });
  tap.requests.length = 0;
  await direct.putBytes(`${location.prefix}/small/9/model.pt`, Buffer.from('in no release'));
  const flags = { yes: true, 'dry-run': false, json: false };
  await pruneReleases(flags, { ...{ name: 'test', flags: {}, location, store, replicas }, commitStore: store, close });
  expect(refused(policies.publisher)).toEqual([`s3:DeleteObject ${place.bucketArn}/agents/small/9/model.pt`]);
  expect(refused(policies.pruner)).toEqual([]);
});

test('promote needs exactly the listed read permissions, only under its prefix', async () => {
  const tap = await tapped();
  const location = { ...LOCATION, prefix: 'promoted' };
  const from = { store: await storeBehind(tap), location };
  const { bucket: copies } = await openBucket(scratch, endpoint, 'copies-of-permissions');
  const to = await openBucket(scratch, tap.endpoint, copies, { create: false });
  const models = join(scratch.directory, 'promoted');
  const { options } = publisher(to, { bucket: to.bucket, prefix: 'models' }, models);
  await expect(promote({ ...options(), from })).rejects.toThrow(/the repository has no release/);

  const direct = await openBucket(scratch, endpoint, LOCATION.bucket, { create: false });
  writeRepository(models, {
    ...addingModel('small', { 1: 1 }),
    'large/config.pbtxt': 'backend: "anything"\nversion_policy { specific { versions: [1] } }\n',
    'large/1/model.pt': 'weights '.repeat(2_500_000),
  });
  const { release } = await publisher(direct, location, models).publish();
  await promote({ ...options(), from, release: release?.id ?? '', models: ['small'] });
  await promote({ ...options(), from });

  const bucket = `arn:aws:s3:::${LOCATION.bucket}`;
  const calls = tap.requests
    .flatMap((request) => permissionsFor(request))
    .filter(({ resource }) => resource === bucket || resource.startsWith(`${bucket}/`));
  const ofS3 = READER_PERMISSIONS.filter(({ of, forAgents }) => of !== 'key' && forAgents !== true);
  expect(kinds(calls)).toEqual(ofS3.map(({ action, of }) => `${action} of ${of}`).sort());
  expect(outside(calls, ['promoted/', 'promoted.releases/'])).toEqual([]);
});

test('Triton needs exactly the listed permissions, only in the repository', async () => {
  const direct = await storeBehind(await tapped());
  const models = join(scratch.directory, 'triton-repository');
  writeRepository(models, { ...addingModel('adds', { 1: 1 }), ...addingEnsemble('both', 'adds') });
  const { publish } = publisher(direct, LOCATION, models);
  await publish();

  const tap = await tapped();
  const { client } = await testTriton(scratch, tritonRepositoryUrl(LOCATION, tap.endpoint), { load: ['*'] });
  await client.loadModel('adds');

  const calls = getCalls(tap);
  expect(kinds(calls)).toEqual(TRITON_PERMISSIONS.map(({ action, of }) => `${action} of ${of}`).sort());
  expect(outside(calls, [`${LOCATION.prefix}/`])).toEqual([]);
});
