import { setTimeout as sleep } from 'node:timers/promises';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { topologicalOrder } from '../release/load-order';
import { configWithVersions, type Manifest, type ManifestModel } from '../release/manifest';
import { TritonError, type ModelIndexEntry } from '../triton/client';
import type { TritonHttpClient } from '../triton/http';
import { explainLoadFailure } from '../triton/load-failure';
import { getUnits, type Unit } from './content-store';
import { Deadline } from './deadline';
import type { ModelRepository } from './model-repository';
import { withoutPrototype, type LoadNote, type NoteFile } from './notes';

/** Triton refused a model of the release, and serves of that model what it served before. */
export class LoadRefusedError extends UserError {
  override readonly name = 'LoadRefusedError';
}

/** One load: what Triton serves of a model after it. */
interface Load {
  model: string;
  config: string;
  units: readonly Unit[];
}

const NO_MODELS = withoutPrototype<ManifestModel>({});

const isVersionName = (name: string): boolean => /^[1-9]\d*$/.test(name);

export type ModelServer = Pick<TritonHttpClient, 'repositoryIndex' | 'loadModel' | 'unloadModel' | 'modelReady'>;

const UNLOAD_MS = 30_000;
/** Time for an answer about what Triton serves. */
export const CHECK_MS = 5000;
/** Versions of which a check asks whether their process still runs. */
const AT_A_TIME = 4;
/** Models that an empty server loads at a time, as many as Triton does when it loads all models itself. */
const LOADS_AT_A_TIME = 4;

/** Messages of CUDA, PyTorch, ONNX Runtime and Python about memory. */
const OUT_OF_MEMORY = /out of memory|failed to allocate|MemoryError|bad_alloc|cannot allocate memory/i;
const MEMORY_HINT =
  'the pod holds the model twice while it switches: publish with --unload-first, which unloads the old one first while the pod gets no requests, or use a larger machine';
const POLL_MS = 100;

/** Has Triton serve a release from a local folder. test/proof/Switch.tla specifies the order. */
export class ModelSwitcher {
  private readonly loading = new Set<string>();
  /** Several loads at a time failed. They may need more memory than one, and end Triton. */
  private oneAtATime = false;
  /** The version with which the next check begins. */
  private checked = 0;

  constructor(
    private readonly options: {
      triton: ModelServer;
      repository: ModelRepository;
      notes: NoteFile;
      /** For one model. */
      loadTimeoutMs: number;
      onLoading?: (model: string) => void;
      onLoaded?: (model: string, isLoaded: boolean) => void;
    },
  ) {}

  /**
   * Has Triton serve the release `to`. Its files must be in the store.
   * @param unloadFirst whether models that change are unloaded before anything is loaded
   * @param keep models of this release stay loaded too
   * @throws LoadRefusedError, TritonError
   */
  async switch(
    to: Manifest,
    from: SwitchFrom,
    { signal, unloadFirst = false, keep }: { signal?: AbortSignal; unloadFirst?: boolean; keep?: Manifest } = {},
  ): Promise<void> {
    if (unloadFirst) {
      await this.unloadOthers(to, keep);
      for (const model of this.getReplaced(to).reverse()) await this.unload(model);
    }
    const load = async (one: Load): Promise<void> => {
      signal?.throwIfAborted();
      await this.load(one);
    };
    const isEmpty = !unloadFirst && (await this.isEmpty());
    const loads = getLoads(to, unloadFirst || isEmpty ? { kind: 'unknown' } : from);
    if (isEmpty && !this.oneAtATime) await this.loadTogether(to, loads, load);
    // `load` skips models that Triton has loaded.
    for (const one of loads) await load(one);
    this.oneAtATime = false;
    await this.unloadOthers(to, keep);
    for (const [model, released] of Object.entries(to.models)) {
      this.options.repository.clean(model, { units: getUnits(model, released) });
    }
  }

  /**
   * Compares the notes with the server, which may have started again or lost a model, and corrects them.
   * @returns the models that the server should serve and does not
   */
  async checkNotes(): Promise<string[]> {
    const lost = await this.findLost();
    this.noteLost(lost);
    return lost;
  }

  /** Corrects the notes: the server no longer serves these models. */
  noteLost(lost: readonly string[]): void {
    const { notes } = this.options;
    for (const model of lost) (notes.notes.loads[model] as LoadNote).sure = false;
    if (lost.length > 0) notes.save();
  }

  /**
   * The models that the server should serve, by the notes, and does not. One request, and some more in turn: a model whose
   * process ended stays READY in the index.
   * @throws TritonError if the server does not answer
   */
  async findLost(): Promise<string[]> {
    const { triton, notes } = this.options;
    const index = await triton.repositoryIndex({ timeoutMs: CHECK_MS });
    const ready = new Set(
      index.filter(({ state }) => state === 'READY').map(({ name, version }) => `${name}/${version}`),
    );
    const loaded = Object.entries(notes.notes.loads)
      .filter(([, { sure }]) => sure)
      .flatMap(([model, { units }]) =>
        Object.keys(units)
          .filter(isVersionName)
          .map((version) => ({ model, version })),
      );
    const isLost = async ({ model, version }: { model: string; version: string }, ask: boolean): Promise<boolean> =>
      !ready.has(`${model}/${version}`) ||
      (ask && !(await triton.modelReady(model, Number(version), { timeoutMs: CHECK_MS })));
    const first = this.checked;
    this.checked = loaded.length === 0 ? 0 : (first + AT_A_TIME) % loaded.length;
    const isDue = (i: number): boolean => (i - first + loaded.length) % loaded.length < AT_A_TIME;
    const lost = await Promise.all(loaded.map(async (one, i) => ((await isLost(one, isDue(i))) ? [one.model] : [])));
    return [...new Set(lost.flat())];
  }

  /**
   * Has an empty server load several models at a time. No request uses them yet, so only ensembles wait for other models.
   * A model that Triton refuses may load alone, when it does not share the memory with others.
   * @throws TritonError
   */
  private async loadTogether(
    { models }: Manifest,
    loads: readonly Load[],
    load: (one: Load) => Promise<void>,
  ): Promise<void> {
    const free = loads.filter(({ model }) => models[model]?.composedOf.length === 0);
    await forEachLimited(free, LOADS_AT_A_TIME, load).catch((error: unknown) => {
      this.oneAtATime = error instanceof LoadRefusedError || error instanceof TritonError;
      if (!(error instanceof LoadRefusedError)) throw error;
    });
  }

  /** Whether Triton serves no model, by the notes and by itself. */
  private async isEmpty(): Promise<boolean> {
    const { triton, notes } = this.options;
    if (Object.values(notes.notes.loads).some(({ sure }) => sure)) return false;
    return (await triton.repositoryIndex()).every(({ state }) => state !== 'READY');
  }

  /** After Triton was restarted: it has loaded nothing. */
  forgetLoads(): void {
    const { notes } = this.options;
    notes.notes.loads = withoutPrototype({});
    notes.save();
  }

  /** Whether a model that Triton serves changes, and is loaded again. */
  replaces(to: Manifest): boolean {
    return this.getReplaced(to).length > 0;
  }

  /** Models that Triton serves and that change, and ensembles of those; composing models first. */
  private getReplaced(to: Manifest): string[] {
    const { loads } = this.options.notes.notes;
    const replaced = new Set<string>();
    for (const { model, config, units } of getLoads(to, { kind: 'unknown' })) {
      const note = loads[model];
      if (note === undefined) continue;
      const isSame =
        note.sure &&
        note.config === config &&
        units.length === Object.keys(note.units).length &&
        units.every(({ name, content }) => note.units[name] === content);
      if (!isSame || to.models[model]?.composedOf.some((step) => replaced.has(step)) === true) replaced.add(model);
    }
    return [...replaced];
  }

  private async load({ model, config, units }: Load): Promise<void> {
    const { triton, repository, notes, loadTimeoutMs, onLoading, onLoaded } = this.options;
    const { loads } = notes.notes;
    const before = loads[model];
    if (!repository.write(model, { config, units }, before)) return;
    // Until the answer it is unknown what Triton has loaded.
    loads[model] = { ...(before ?? { units: {}, config: '' }), sure: false };
    notes.save();
    onLoading?.(model);
    this.loading.add(model);
    try {
      await triton.loadModel(model, { timeoutMs: loadTimeoutMs });
      await this.requireReady(model, units);
    } catch (error) {
      onLoaded?.(model, false);
      if (!(error instanceof TritonError)) throw error;
      if (!error.answered) throw unanswered(model, [...this.loading], error, loadTimeoutMs);
      // Triton keeps what it had if a load fails.
      if (before !== undefined) loads[model] = before;
      notes.save();
      const { message, hint } = explainLoadFailure(model, error.message);
      throw new LoadRefusedError(`Triton cannot load ${model}: ${message}`, {
        cause: error,
        hint: OUT_OF_MEMORY.test(message) ? MEMORY_HINT : hint,
      });
    } finally {
      this.loading.delete(model);
    }
    onLoaded?.(model, true);
    loads[model] = {
      sure: true,
      units: Object.fromEntries(units.map(({ name, content }) => [name, content])),
      config,
    };
    notes.save();
  }

  /**
   * @throws LoadRefusedError unless the index shows each version as READY
   * @throws TritonError if the index lacks a version: Triton has restarted
   */
  private async requireReady(model: string, units: readonly Unit[]): Promise<void> {
    const index = await this.options.triton.repositoryIndex();
    for (const { name } of units.filter(({ isVersion }) => isVersion)) {
      const entry = index.find((one) => one.name === model && one.version === name);
      if (entry?.state === 'READY') continue;
      if (entry === undefined) throw new TritonError('the index lacks the model', { status: 'unreachable' });
      const { message, hint } = explainLoadFailure(model, entry.reason);
      throw new LoadRefusedError(`Triton does not serve ${model} version ${name}: ${entry.state} ${message}`.trim(), {
        hint,
      });
    }
  }

  /** Unloads the models that are in none of the releases, ensembles before their steps. */
  async unloadOthers(...releases: (Manifest | undefined)[]): Promise<void> {
    const { triton, repository, notes } = this.options;
    const isOther = (name: string): boolean =>
      !releases.some((release) => release !== undefined && Object.hasOwn(release.models, name));
    // Also models that an agent loaded whose notes were lost.
    const served = (await triton.repositoryIndex()).filter(({ state }) => state === 'READY').map(({ name }) => name);
    const others = new Set([...Object.keys(notes.notes.loads), ...served].filter(isOther));
    for (const model of [...others].reverse()) await this.unload(model);
    repository
      .models()
      .filter(isOther)
      .forEach((model) => repository.remove(model));
  }

  private async unload(model: string): Promise<void> {
    const { triton, notes } = this.options;
    const { loads } = notes.notes;
    const note = loads[model];
    // While it is unloaded, which takes as long as its requests, the model is not lost.
    if (note !== undefined) note.sure = false;
    notes.save();
    await triton.unloadModel(model);
    await this.untilUnloaded(model);
    Reflect.deleteProperty(loads, model);
    notes.save();
  }

  private async untilUnloaded(model: string): Promise<void> {
    const isLoaded = ({ name, state }: ModelIndexEntry): boolean =>
      name === model && (state === 'READY' || state === 'UNLOADING');
    const deadline = new Deadline(UNLOAD_MS);
    for (;;) {
      if (!(await this.options.triton.repositoryIndex()).some(isLoaded)) return;
      if (deadline.leftMs === 0) {
        throw new TritonError(`Triton does not unload ${model} within ${UNLOAD_MS / 1000} s`, {
          status: 'timeout',
          model,
          hint: 'read the log of Triton: a process of the model has probably died, or hangs',
        });
      }
      await sleep(POLL_MS);
    }
  }
}

/** Triton ended during a load, or did not finish it. */
function unanswered(model: string, loading: readonly string[], cause: TritonError, timeoutMs: number): TritonError {
  const { status } = cause;
  const message =
    status === 'timeout'
      ? `Triton did not load ${model} within ${timeoutMs / 1000} s`
      : `Triton ended while it loaded ${loading.join(', ')}, or does not answer: ${cause.message}`;
  const hint =
    status === 'timeout'
      ? 'allow more time: startSeconds of a stack, or --load-timeout of the agent'
      : `read the log of Triton; ${loading.length === 1 ? model : 'one of them'} may have ended it`;
  return new TritonError(message, { status, model, cause, hint });
}

/** Where a switch begins. `unknown`: Triton has loaded nothing, or it is not known what. */
export type SwitchFrom = { kind: 'unknown' } | { kind: 'release' | 'failed'; release: Manifest };

/**
 * The loads that lead to a release. Composing models come before their ensembles. If Triton serves another release, a
 * composing model first serves the versions of both, and gives the old ones up after the ensembles are switched; so no
 * request to an ensemble that names the versions of its steps uses steps of two releases. After a switch that failed,
 * ensembles go back first, because their steps may still serve both.
 */
export function getLoads(to: Manifest, from: SwitchFrom): Load[] {
  const order = inLoadOrder(to.models);
  const isStep = isComposing(to);
  const target = (model: string): Load => {
    const released = to.models[model] as ManifestModel;
    return { model, config: configWithVersions(released, released.served), units: getUnits(model, released) };
  };
  const others = order.filter((model) => !isStep(model)).map(target);
  const steps = order.filter(isStep);
  if (from.kind === 'failed') return [...others, ...steps.map(target)];
  const old = from.kind === 'release' ? from.release.models : NO_MODELS;
  const joined = steps.flatMap((model) => withOldVersions(target(model), to.models[model], old[model]));
  const isJoined = (model: string): boolean => joined.some((load) => load.model === model);
  return [
    ...joined,
    ...steps.filter((model) => !isJoined(model)).map(target),
    ...others,
    ...steps.filter(isJoined).map(target),
  ];
}

/**
 * Whether a pod cannot serve both releases while it switches: a composing model has another interface, or a version number
 * of it stands for two contents, so an ensemble could not use it or would use steps of both; or an ensemble is removed,
 * and its steps change.
 */
export function hasClash(to: Manifest, from: Manifest): boolean {
  const isStep = isComposing(to, from);
  const removed = Object.keys(from.models).filter((model) => to.models[model] === undefined);
  const isStepOfRemoved = (step: string): boolean =>
    removed.some((model) => from.models[model]?.composedOf.includes(step) === true);
  return Object.entries(to.models).some(([model, released]) => {
    const old = from.models[model];
    if (old === undefined || !isStep(model)) return false;
    const before = new Map(getUnits(model, old).map(({ name, content }) => [name, content]));
    const now = getUnits(model, released);
    const isChanged = now.length !== before.size || now.some(({ name, content }) => before.get(name) !== content);
    return (
      getInterface(released.config) !== getInterface(old.config) ||
      // Triton reads the interface from the files.
      (isChanged && (!/\boutput\b/.test(released.config) || isStepOfRemoved(model))) ||
      now.some(({ name, isVersion, content }) => isVersion && before.has(name) && before.get(name) !== content)
    );
  });
}

/** Fields of a configuration that do not change what a model takes and returns. */
const NOT_INTERFACE = /^(instance_group|dynamic_batching|sequence_batching|optimization|model_warmup|response_cache)\b/;

/** The text of a configuration, one field a line as publishers write it, without the fields above. */
function getInterface(config: string): string {
  let isLeftOut = false;
  return config
    .split('\n')
    .filter((line) => {
      // What belongs to a field is indented, or closes it.
      if (/^[a-z]/.test(line)) isLeftOut = NOT_INTERFACE.test(line);
      return line !== '' && !isLeftOut;
    })
    .join('\n');
}

function isComposing(...releases: Manifest[]): (model: string) => boolean {
  const all = releases.flatMap(({ models }) => Object.values(models).flatMap(({ composedOf }) => composedOf));
  const composing = new Set(all);
  return (model) => composing.has(model);
}

/** The load with the versions that only the old release serves; none if there are no such versions. */
function withOldVersions(load: Load, released: ManifestModel | undefined, old: ManifestModel | undefined): Load[] {
  if (released === undefined || old === undefined) return [];
  const more = getUnits(load.model, old).filter(
    ({ name, isVersion }) => isVersion && !load.units.some((unit) => unit.name === name),
  );
  if (more.length === 0) return [];
  const served = [...released.served, ...more.map(({ name }) => Number(name))].sort((a, b) => a - b);
  return [{ ...load, config: configWithVersions(released, served), units: [...load.units, ...more] }];
}

/** Models of a release, composing models before their ensembles. */
export const inLoadOrder = (models: Readonly<Record<string, ManifestModel>>): string[] =>
  topologicalOrder(
    Object.keys(models)
      .sort()
      .map((name) => ({ name, composedOf: models[name]?.composedOf ?? [] })),
  ).map(({ name }) => name);
