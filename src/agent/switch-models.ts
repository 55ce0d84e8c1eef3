import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../core/errors';
import type { Manifest, ReleasedModel } from '../release/manifest';
import { TritonError, type ModelControl, type ModelIndexEntry } from '../triton/client';
import { explainLoadFailure } from '../triton/load-failure';
import { unitsOf, type Unit } from './content-store';
import type { ModelRepository } from './model-repository';
import type { NoteFile } from './notes';

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

const isVersionName = (name: string): boolean => /^[1-9]\d*$/.test(name);

const UNLOAD_MS = 30_000;
const POLL_MS = 100;

/** Has Triton serve a release from a local folder. test/spec/Switch.tla specifies the order. */
export class ModelSwitcher {
  constructor(
    private readonly options: {
      triton: ModelControl;
      repository: ModelRepository;
      notes: NoteFile;
      /** For one model. */
      loadTimeoutMs: number;
      onLoading?: (model: string) => void;
    },
  ) {}

  /**
   * Has Triton serve the release `to`. Its files must be in the store.
   * @throws LoadRefusedError, TritonError
   */
  async switch(to: Manifest, from: SwitchFrom, signal?: AbortSignal): Promise<void> {
    for (const load of getLoads(to, from)) {
      signal?.throwIfAborted();
      await this.load(load);
    }
    await this.unloadOthers(to);
    for (const [model, released] of Object.entries(to.models)) {
      this.options.repository.clean(model, { units: unitsOf(model, released) });
    }
  }

  /**
   * Compares the notes with the server, which may have started again or lost a model.
   * @returns the models that the server should serve and does not
   */
  async checkNotes(): Promise<string[]> {
    const { triton, notes } = this.options;
    const index = await triton.repositoryIndex({ timeoutMs: 5000 });
    const ready = new Set(
      index.filter(({ state }) => state === 'READY').map(({ name, version }) => `${name}/${version}`),
    );
    const lost = Object.entries(notes.notes.loads).filter(
      ([model, { sure, units }]) =>
        sure && Object.keys(units).some((name) => isVersionName(name) && !ready.has(`${model}/${name}`)),
    );
    for (const [, note] of lost) note.sure = false;
    if (lost.length > 0) notes.save();
    return lost.map(([model]) => model);
  }

  private async load({ model, config, units }: Load): Promise<void> {
    const { triton, repository, notes, loadTimeoutMs, onLoading } = this.options;
    const { loads } = notes.notes;
    const before = loads[model];
    if (!repository.write(model, { config, units }, before)) return;
    // Until the answer it is unknown what Triton has loaded.
    loads[model] = { ...(before ?? { units: {}, config: '' }), sure: false };
    notes.save();
    onLoading?.(model);
    try {
      await triton.loadModel(model, { timeoutMs: loadTimeoutMs });
      await this.requireReady(model, units);
    } catch (error) {
      if (!(error instanceof TritonError && error.answered)) throw error;
      // Triton keeps what it had if a load fails.
      if (before !== undefined) loads[model] = before;
      notes.save();
      const { message, hint } = explainLoadFailure(model, error.message);
      throw new LoadRefusedError(`Triton cannot load ${model}: ${message}`, { cause: error, hint });
    }
    loads[model] = {
      sure: true,
      units: Object.fromEntries(units.map(({ name, content }) => [name, content])),
      config,
    };
    notes.save();
  }

  /** @throws LoadRefusedError unless the index shows each version as READY */
  private async requireReady(model: string, units: readonly Unit[]): Promise<void> {
    const index = await this.options.triton.repositoryIndex();
    for (const { name } of units.filter(({ isVersion }) => isVersion)) {
      const entry = index.find((one) => one.name === model && one.version === name);
      if (entry?.state === 'READY') continue;
      const { message, hint } = explainLoadFailure(model, entry?.reason ?? '');
      throw new LoadRefusedError(
        `Triton does not serve ${model} version ${name}: ${entry?.state ?? 'it is not in the index'} ${message}`.trim(),
        { hint },
      );
    }
  }

  /** Unloads the models that are not in the release, ensembles before their steps. */
  private async unloadOthers({ models }: Manifest): Promise<void> {
    const { triton, repository, notes } = this.options;
    const { loads } = notes.notes;
    const isOther = (name: string): boolean => !Object.hasOwn(models, name);
    const others = Object.keys(loads).filter(isOther).reverse();
    for (const model of others) {
      await triton.unloadModel(model);
      await this.untilUnloaded(model);
      Reflect.deleteProperty(loads, model);
      notes.save();
    }
    repository
      .models()
      .filter(isOther)
      .forEach((model) => repository.remove(model));
  }

  private async untilUnloaded(model: string): Promise<void> {
    const isLoaded = ({ name, state }: ModelIndexEntry): boolean =>
      name === model && (state === 'READY' || state === 'UNLOADING');
    const deadline = Date.now() + UNLOAD_MS;
    for (;;) {
      if (!(await this.options.triton.repositoryIndex()).some(isLoaded)) return;
      if (Date.now() > deadline) {
        throw new UserError(`Triton does not unload ${model} within ${UNLOAD_MS / 1000} s`, {
          hint: 'restart the server: a process of the model has probably died',
        });
      }
      await sleep(POLL_MS);
    }
  }
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
    const released = to.models[model] as ReleasedModel;
    return { model, config: configOf(released, released.served), units: unitsOf(model, released) };
  };
  const others = order.filter((model) => !isStep(model)).map(target);
  const steps = order.filter(isStep);
  if (from.kind === 'failed') return [...others, ...steps.map(target)];
  const old = from.kind === 'release' ? from.release.models : {};
  const joined = steps.flatMap((model) => withVersionsOf(target(model), to.models[model], old[model]));
  const isJoined = (model: string): boolean => joined.some((load) => load.model === model);
  return [
    ...joined,
    ...steps.filter((model) => !isJoined(model)).map(target),
    ...others,
    ...steps.filter(isJoined).map(target),
  ];
}

/**
 * Whether a version number of a composing model stands for two contents. While such a model is switched, an ensemble
 * could use steps of both releases.
 */
export function hasClash(to: Manifest, from: Manifest): boolean {
  const isStep = isComposing(to, from);
  return Object.entries(to.models).some(([model, released]) => {
    const old = from.models[model];
    if (old === undefined || !isStep(model)) return false;
    const before = new Map(unitsOf(model, old).map(({ name, content }) => [name, content]));
    return unitsOf(model, released).some(
      ({ name, isVersion, content }) => isVersion && before.has(name) && before.get(name) !== content,
    );
  });
}

function isComposing(...releases: Manifest[]): (model: string) => boolean {
  const all = releases.flatMap(({ models }) => Object.values(models).flatMap(({ composedOf }) => composedOf));
  const composing = new Set(all);
  return (model) => composing.has(model);
}

/** The load with the versions that only the old release serves; none if there are no such versions. */
function withVersionsOf(load: Load, released: ReleasedModel | undefined, old: ReleasedModel | undefined): Load[] {
  if (released === undefined || old === undefined) return [];
  const more = unitsOf(load.model, old).filter(
    ({ name, isVersion }) => isVersion && !load.units.some((unit) => unit.name === name),
  );
  if (more.length === 0) return [];
  const served = [...released.served, ...more.map(({ name }) => Number(name))].sort((a, b) => a - b);
  return [{ ...load, config: configOf(released, served), units: [...load.units, ...more] }];
}

/** The text of config.pbtxt with a policy that names the versions. */
const configOf = ({ config }: ReleasedModel, served: readonly number[]): string =>
  `${config.trimEnd()}\nversion_policy { specific { versions: [${served.join(', ')}] } }\n`;

/** Models of a release, composing models before their ensembles. */
export function inLoadOrder(models: Readonly<Record<string, ReleasedModel>>): string[] {
  const ordered: string[] = [];
  const seen = new Set<string>();
  const add = (name: string): void => {
    const model = models[name];
    if (model === undefined || seen.has(name)) return;
    seen.add(name);
    model.composedOf.forEach(add);
    ordered.push(name);
  };
  Object.keys(models).sort().forEach(add);
  return ordered;
}
