import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { policyDocument, type PolicyStatement } from '../../infra/iam/policy-document';
import { prunerStatements, publisherStatements } from '../../infra/iam/repository-policies';
import { pruneReleases } from '../../src/commands/prune-command';
import { filesPrefix, releasesPrefix } from '../../src/release/location';
import { promote } from '../../src/publish/promote';
import { rollBack } from '../../src/publish/rollback';
import { repositoryStatus } from '../../src/publish/status';
import type { S3Store } from '../../src/s3/store';
import { PUBLISHER_PERMISSIONS, READER_PERMISSIONS, permissionsFor } from '../support/aws-permissions';
import { decide, type Call, type PolicyDocument } from '../support/iam';
import { publisher, sourceOf } from '../support/publish';
import { addingModel, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { RulePod } from '../support/rule-pod';
import { Scratch } from '../support/temp-dir';
import { startScriptedProxy, type ScriptedProxy } from '../support/scripted-proxy';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'permissions-test', prefix: 'models' };
const PLACES = [`${LOCATION.prefix}/`, `${releasesPrefix(LOCATION)}/`];
const KEY = 'arn:aws:kms:eu-central-1:111122223333:key/1';
const repository = join(scratch.directory, 'repository');

let endpoint: string;

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  await openBucket(scratch, endpoint, LOCATION.bucket);
});

async function tapped(): Promise<ScriptedProxy> {
  const tap = await startScriptedProxy(endpoint);
  scratch.defer(() => tap.stop());
  return tap;
}

/** A store behind the tap. Rejected requests are not retried. */
const storeBehind = (tap: ScriptedProxy): Promise<S3Store> =>
  openBucket(scratch, tap.endpoint, LOCATION.bucket, { create: false, attempts: 1 });

const getCalls = (tap: ScriptedProxy): Call[] => tap.requests.flatMap((request) => permissionsFor(request, KEY));

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

const completes = (method: string, path: string): boolean => method === 'POST' && path.includes('uploadId=');

const close = (): Promise<void> => Promise.resolve();

/** A policy in the form in which AWS gets it. */
const getPolicy = async (statements: PolicyStatement[]): Promise<PolicyDocument> =>
  JSON.parse(await new Promise<string>((resolve) => policyDocument(statements).apply(resolve))) as PolicyDocument;

test('a publisher needs exactly the listed permissions, which its role has, and a prune those of the pruner', async () => {
  const place = { bucketArn: `arn:aws:s3:::${LOCATION.bucket}`, prefix: LOCATION.prefix, keyArn: KEY };
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
  const pod = await RulePod.start(scratch, 'pod', direct, LOCATION);
  const replicas = sourceOf([pod]);
  const store = await storeBehind(tap);
  const { publish, options } = publisher(store, LOCATION, repository, replicas);
  const config = 'backend: "anything"\nversion_policy { all {} }\n';
  const files = (version: number): Record<string, string> => ({
    'small/config.pbtxt': config,
    [`small/${version}/weights`]: String(version),
    'small/labels.txt': `labels of ${version}`,
  });
  writeRepository(repository, files(1));
  const first = await publish();
  rmSync(repository, { recursive: true });
  writeRepository(repository, {
    ...files(2),
    'large/config.pbtxt': config,
    'large/1/weights': 'weights '.repeat(2_500_000),
  });
  // Cut the connection when the upload is to be completed; the upload is then aborted.
  tap.set({ onRequest: ({ method, path }) => (completes(method, path) ? 'resetBefore' : undefined) });
  await expect(publish()).rejects.toThrow();
  tap.set({});
  await publish({ prune: true });
  await rollBack(first.release?.id, options());
  await repositoryStatus({ store, location: LOCATION }, replicas);
  expect(kinds(getCalls(tap))).toEqual(PUBLISHER_PERMISSIONS.map(({ action, of }) => `${action} of ${of}`).sort());
  expect(outside(getCalls(tap), PLACES)).toEqual([]);

  // S3 copies from a repository that other roles may read.
  const source = { ...LOCATION, prefix: 'source' };
  writeRepository(repository, { 'copied/config.pbtxt': config, 'copied/3/weights': '3' });
  await publisher(direct, source, repository).publish();
  await promote({ ...options(), from: { store: direct, location: source } });
  const ofSource = /\/source(\.releases)?\//;
  expect(refused(policies.publisher).filter((call) => !ofSource.test(call))).toEqual([]);
  expect(refused(policies.pruner).filter((call) => !ofSource.test(call))).toEqual([]);

  tap.requests.length = 0;
  const orphan = `${filesPrefix(LOCATION)}${'0'.repeat(43)}.0`;
  await direct.putBytes(orphan, Buffer.from('in no release'));
  const flags = { yes: true, 'dry-run': false, json: false };
  const target = { ...{ name: 'test', flags: {}, location: LOCATION, store, replicas }, close };
  await pruneReleases(flags, target);
  expect(refused(policies.publisher)).toEqual([`s3:DeleteObject ${place.bucketArn}/${orphan}`]);
  expect(refused(policies.pruner)).toEqual([]);
});

test('promote needs exactly the listed read permissions, only under its prefix', async () => {
  const tap = await tapped();
  const location = { ...LOCATION, prefix: 'promoted' };
  const from = { store: await storeBehind(tap), location };
  const copied = await openBucket(scratch, endpoint, 'copies-of-permissions');
  const { bucket: copies } = copied;
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
  const ofS3 = READER_PERMISSIONS.filter(({ of }) => of !== 'key');
  expect(kinds(calls)).toEqual(ofS3.map(({ action, of }) => `${action} of ${of}`).sort());
  expect(outside(calls, ['promoted/', 'promoted.releases/'])).toEqual([]);
});
