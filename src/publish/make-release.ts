import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../core/abort';
import { PartialFailureError, UserError } from '../core/errors';
import { nextCommand } from '../core/next-command';
import { bakeKey, encodeBake, type BakeRecord } from '../release/bake';
import { FORMAT } from '../release/format';
import { formatLocation, headKey, releaseKey } from '../release/location';
import { PreconditionFailedError, type S3Store } from '../s3/store';
import { encodeManifest, sha256Hex, type Manifest } from '../release/manifest';
import { AgentClient, AgentError, AnotherPublisherError, getStates } from './agent-client';
import { Bake } from './bake';
import { HeadFile, newId, RETAINED, type Base } from './head-file';
import type { DesiredState, ReleaseOptions, ReleaseResult } from './options';
import { formerFiles, makePlan, needsRelease, requireNoConflict, requireRemovable, type Plan } from './plan';
import { ourName } from './provenance';
import { Releases } from './releases';
import { Trials } from './trials';
import { uploadModels } from './upload';
import { REPAIR_VIEW, repairView } from './view';

/** A trial ends after this time if its publisher is gone. */
const TTL_SECONDS = 60;
const POLL_MS = 1000;
/** Time beside the loads of models: to leave the Service, to download, and to ask. */
const BESIDE_MS = 300_000;
/** Time between two attempts while another publisher is active, at least. */
const WAIT_MS = 2000;
/** Nothing waits for longer for the record of a bake. */
const NOTE_MS = 20_000;

export type GetTarget = (releases: Releases) => Promise<DesiredState>;

/** Makes a release, or leaves everything as it was. Waits for another publisher, and then begins again. */
export async function makeRelease(getTarget: GetTarget, options: ReleaseOptions): Promise<ReleaseResult> {
  const deadline = Date.now() + options.waitMs;
  for (;;) {
    try {
      return await makeOnce(getTarget, options);
    } catch (error) {
      if (!(error instanceof AnotherPublisherError) || Date.now() > deadline) throw error;
      options.onStage?.(`wait for another publisher: ${error.message}`);
      await abortable(sleep(WAIT_MS * (1 + Math.random())), options.signal);
    }
  }
}

/**
 * 1. read head.json; every decision refers to this content of it
 * 2. upload what no retained release has, and write the manifest
 * 3. have every replica that gets requests try the release, the first as a canary
 * 4. replace head.json if it still is the content that was read: the only commit point
 * 5. wait until every replica has noticed; then repair the view
 *
 * If step 3 or 4 fails, the trials end and the replicas go back by themselves. test/proof/Publish.tla specifies this.
 */
async function makeOnce(getTarget: GetTarget, options: ReleaseOptions): Promise<ReleaseResult> {
  const { store, location, agents, untried } = options;
  const head = new HeadFile(store, location);
  const releases = await Releases.read({ store, location }, head);
  const { current } = releases;
  const target = await getTarget(releases);
  requireRemovable(target, current);
  const plan = makePlan(target.models, releases, target, await releases.listFiles());
  options.onPlan?.(plan);
  if (target.replacePublished !== true) requireNoConflict(plan, target);
  const isNew = needsRelease(plan, current);
  await requireReaders(options, isNew, releases.base, head);
  if (options.dryRun === true) return { plan, release: current, isNew };
  const isAsked = agents !== undefined && untried !== true;
  const { release, replicas, bake } = isNew
    ? await commit(plan, target, releases, head, options)
    : { release: current, replicas: isAsked ? await untilServed(current, options) : [], bake: undefined };
  // The release is current now. A failure below does not change that.
  await repairView(head, store, location, { current: release }).catch((error: unknown) => {
    const message = `the release is in service on all replicas, but the bucket shows older files to people and other servers: ${(error as Error).message}`;
    const hint = (error instanceof UserError ? error.hint : undefined) ?? REPAIR_VIEW;
    options.onWarning?.({ file: formatLocation(location), message, hint });
  });
  return { plan, release, isNew, replicas: isAsked ? replicas : undefined, bake };
}

/** @throws UserError if an agent cannot read what this version writes, or where it writes it */
async function requireReaders(
  { agents, location, onStage, onOnlyReplica, untried, dryRun }: ReleaseOptions,
  isNew: boolean,
  base: Base,
  head: HeadFile,
): Promise<void> {
  const found = (await agents?.list()) ?? [];
  if (agents !== undefined && found.length === 0 && untried !== true) {
    throw new UserError(`no replica is running that could try the release: ${agents.describe()}`, {
      hint: 'start one; or add --untried: replicas that start later then load the release without a trial',
    });
  }
  const where = formatLocation(location);
  const ready = found.filter((address) => address.ready !== false);
  const states = await Promise.all(
    ready.map((address) =>
      new AgentClient(address).getState().catch((error: unknown) => {
        if (!(error instanceof AgentError)) throw error;
        onStage?.(error.message);
        return undefined;
      }),
    ),
  );
  for (const [i, address] of ready.entries()) {
    const { format = FORMAT, repository = where, trial = null, head: read = null } = states[i] ?? {};
    if (repository !== where) {
      throw new UserError(`the agent of ${address.name} serves ${repository}, not ${where}`, {
        hint: 'name the repository of these replicas, or the replicas of this repository',
      });
    }
    if (format < FORMAT) {
      throw new UserError(
        `the agent of ${address.name} reads manifests up to format ${format}; this tool writes ${FORMAT}`,
        { hint: 'update the stack first: pulumi up' },
      );
    }
    if (read !== null && read.generation > base.generation) {
      const { generation } = await head.read();
      if (generation >= read.generation) throw new AnotherPublisherError('another publisher has committed a release');
      const now = generation === 0 ? 'is missing' : `has generation ${generation}`;
      throw new UserError(`${headKey(location)} ${now}, but ${address.name} has read generation ${read.generation}`, {
        hint: `write it again: ${nextCommand('rollback', '--repair')}`,
      });
    }
    // Before anything is uploaded: each attempt would write a manifest.
    if (isNew && untried !== true && dryRun !== true && trial !== null) {
      throw new AnotherPublisherError(`${trial.by} tries another release on ${address.name}`);
    }
  }
  const [only, ...others] = ready.filter((_, i) => states[i]?.ready !== false && states[i] !== undefined);
  if (isNew && untried !== true && only !== undefined && others.length === 0) onOnlyReplica?.(only.name);
}

interface Committed {
  release: Manifest;
  /** Those that tried it. */
  replicas: string[];
  bake: BakeRecord | undefined;
}

async function commit(
  plan: Plan,
  target: DesiredState,
  { base, current }: Releases,
  head: HeadFile,
  options: ReleaseOptions,
): Promise<Committed> {
  const { store, location, agents, signal, onStage, onBytes, noAsk, untried, unloadFirst } = options;
  if (agents === undefined && untried !== true) {
    throw new UserError('no replicas were given, so no replica would try the release', {
      hint: 'add --stack, --selector or --agent; or add --untried: replicas then load the release without a trial',
    });
  }
  const sweep = base.head?.sweep ?? 0;
  const uploaded = await uploadModels(plan, { store, location, sweep, signal, onBytes });
  const named = Object.entries({ ...current?.models, ...uploaded })
    .filter(([name]) => !plan.remove.includes(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  // Without a prototype, because the name of a model may be `constructor`.
  const models = Object.assign(Object.create(null), Object.fromEntries(named)) as Manifest['models'];
  const secret = randomBytes(24).toString('base64url');
  const id = newId();
  const retained = [...(base.head?.retained ?? []), id].slice(-RETAINED);
  const manifest: Manifest = {
    id,
    createdAt: new Date().toISOString(),
    previous: base.head?.release,
    base: base.generation,
    origin: target.origin,
    by: ourName(),
    ...(await target.provenance?.()),
    restores: target.restores,
    notAsked: noAsk === true || untried === true ? true : undefined,
    trialKey: sha256Hex(secret),
    unloadFirst: unloadFirst === true ? true : undefined,
    models,
    former: formerFiles(current, models, retained),
  };
  const body = encodeManifest(manifest);
  const manifestSha256 = sha256Hex(body);
  signal?.throwIfAborted();
  await store.putBytes(releaseKey(location, id), body, { ifAbsent: true });
  if (base.head === undefined) await requireConditions(store, releaseKey(location, id), body);
  const next = { release: id, manifestSha256, retained, sweep, writer: id };
  if (untried === true || agents === undefined) {
    await head.replace(base, next);
    return { release: manifest, replicas: [], bake: undefined };
  }
  const changed = plan.models.filter(({ isChanged }) => isChanged).map(({ model }) => model.name);
  const before = Object.keys(current?.models ?? {}).some((name) => Object.hasOwn(models, name)) ? current : undefined;
  const bake = options.bake && before && new Bake(options.bake, { before, next: manifest }, changed);
  const trials = new Trials(
    { id, manifestSha256, base: base.generation, secret },
    {
      ...{ agents, runId: id, by: ourName(), ttlSeconds: TTL_SECONDS, signal, onStage },
      ...{ ask: noAsk !== true, bake, onBake: options.onBake },
      timeoutMs: options.loadTimeoutMs * Math.max(1, changed.length) + BESIDE_MS,
      ...options.trials,
    },
  );
  let isCommitted = false;
  try {
    const replicas = await trials.run();
    signal?.throwIfAborted();
    const generation = await head.replace(base, next);
    isCommitted = true;
    await trials.untilAcknowledged(generation);
    return { release: manifest, replicas, bake: bake?.record };
  } catch (error) {
    if (isCommitted) throw isCurrentBut(id, error, signal);
    // Where the outcome is unknown, the replicas go on serving the release until the trials end by themselves.
    if (!(error instanceof PartialFailureError)) await endTrials(trials, error, options);
    throw error;
  } finally {
    trials.stop();
    await note(bake?.record, id, options);
  }
}

/** Stores how the release answered beside the one before. Nothing depends on that. */
async function note(record: BakeRecord | undefined, id: string, options: ReleaseOptions): Promise<void> {
  const { store, location, onWarning } = options;
  if (record === undefined) return;
  const written = store.putBytes(
    bakeKey(location, id),
    encodeBake(record),
    { ifAbsent: true },
    { deadlineMs: NOTE_MS },
  );
  await written.catch((error: unknown) => {
    const message = `the result of the bake was not stored: ${(error as Error).message}`;
    onWarning?.({ file: formatLocation(location), message });
  });
}

function isCurrentBut(id: string, reason: unknown, signal: AbortSignal | undefined): PartialFailureError {
  const isInterrupted = signal?.aborted === true && reason === signal.reason;
  const problem = isInterrupted
    ? 'the command was interrupted before every replica confirmed it'
    : (reason as Error).message;
  return new PartialFailureError(`release ${id} is the current one, but ${problem}`, {
    hint: 'run "npm run status" to see what each replica serves',
    cause: reason,
  });
}

/** @throws PartialFailureError with the reason of the failure, if a replica does not confirm that it went back */
async function endTrials(trials: Trials, reason: unknown, { onStage, onBake }: ReleaseOptions): Promise<void> {
  onBake?.('');
  onStage?.('end the trials: the replicas go back to the current release');
  try {
    await trials.end();
  } catch (error) {
    const { message, hint } = error as UserError;
    throw new PartialFailureError(`${(reason as Error).message}\nThen ${message}`, { hint, cause: reason });
  }
}

async function untilServed(
  current: Manifest | undefined,
  { agents, loadTimeoutMs, signal }: ReleaseOptions,
): Promise<string[]> {
  const deadline = Date.now() + loadTimeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    const due = ((await agents?.list()) ?? []).filter(({ ready }) => ready !== false);
    const states = await getStates(due);
    const late = due.flatMap(({ name }, i) => {
      const state = states[i];
      if (state !== undefined && (current === undefined || state.release === current.id)) return [];
      return [`${name}${(state?.problem ?? '') === '' ? '' : ` (${state?.problem})`}`];
    });
    if (late.length === 0) return due.map(({ name }) => name);
    if (Date.now() > deadline) {
      throw new PartialFailureError(
        `nothing was to be published, but the current release is not served by ${late.join(', ')}`,
        { hint: '"npm run status" shows what each replica serves' },
      );
    }
    await abortable(sleep(POLL_MS), signal);
  }
}

/**
 * Verifies that the server refuses to create an object that exists. Publishers depend on that, and some servers ignore
 * the condition. Costs a request, so it is called only for the first object of a repository.
 * @param body the content of the object
 * @throws UserError if the server does not refuse; then the object is deleted, so that the next publisher verifies again
 */
async function requireConditions(store: S3Store, key: string, body: Buffer): Promise<void> {
  try {
    // Other bytes, because the client takes a refused write of the same bytes for its own earlier try.
    await store.putBytes(key, Buffer.concat([body, Buffer.from('\n')]), { ifAbsent: true });
  } catch (error) {
    if (error instanceof PreconditionFailedError) return;
    throw error;
  }
  await store.delete([{ key }]).catch(() => undefined);
  throw new UserError(
    `the S3 server at ${store.url} lacks conditional writes: it replaced s3://${store.bucket}/${key}, although the request had "If-None-Match: *"`,
    {
      hint: "use a server that supports If-None-Match and If-Match; without them, publishers would overwrite each other's releases",
    },
  );
}
