import { isDeepStrictEqual } from 'node:util';
import { UserError } from '../core/errors';
import { decodeGolden, type GoldenRequest, type ReleasedGolden } from '../model/golden';
import { askModel, type Asked } from '../release/ask';
import { goldenKey, type RepositoryLocation } from '../release/location';
import type { Manifest, ManifestModel } from '../release/manifest';
import type { S3Reader } from '../s3/reader';
import type { InferenceClient } from '../triton/client';
import { getUnits } from './content-store';
import type { Report } from './events';
import { inLoadOrder } from './switch-models';

/** How models of a release answered, by name. */
export type AskedModels = Record<string, Asked>;

/**
 * The models that may answer otherwise than in another release: their files, configuration or golden requests changed,
 * or those of a composing model. Composing models come before their ensembles.
 */
export function getModelsToAsk(to: Manifest, from: Manifest | undefined): string[] {
  const changed = new Set<string>();
  for (const name of inLoadOrder(to.models)) {
    const model = to.models[name] as ManifestModel;
    const old = from?.models[name];
    if (
      model.composedOf.some((step) => changed.has(step)) ||
      !isDeepStrictEqual(getDeterminants(name, model), getDeterminants(name, old))
    )
      changed.add(name);
  }
  return [...changed];
}

/** Returns what determines the answers of a model, except its composing models. */
function getDeterminants(name: string, model: ManifestModel | undefined): unknown {
  if (model === undefined) return undefined;
  return [model.config, model.golden?.sha256, ...getUnits(name, model).map(({ content }) => content)].sort();
}

/** The golden requests of these models, from S3. Read before models are loaded, so that a missing object changes nothing. */
export async function readGoldenRequests(
  { models }: Manifest,
  names: readonly string[],
  store: S3Reader,
  location: RepositoryLocation,
): Promise<Map<string, GoldenRequest[]>> {
  const read = async (golden: ReleasedGolden): Promise<GoldenRequest[]> => {
    const key = goldenKey(location, golden.sha256);
    const where = `s3://${store.bucket}/${key}`;
    const found = await store.get(key);
    if (found !== undefined) return decodeGolden(found.body, golden, where);
    throw new UserError(`cannot read the golden requests of the release: ${where} is missing`, {
      hint: 'publish the model again, or skip the verification of answers with --no-ask',
    });
  };
  const found = names.map(async (name) => {
    const golden = models[name]?.golden;
    return [name, golden === undefined ? [] : await read(golden)] as const;
  });
  return new Map(await Promise.all(found));
}

export interface AskModelsOptions {
  triton: Pick<InferenceClient, 'modelConfig' | 'infer'>;
  /** How models answered in the release that this one replaces. */
  before: AskedModels;
  signal: AbortSignal;
  /** Called before a model is asked. */
  onAsk?: (model: string) => void;
  report: Report;
}

/**
 * Sends models their golden requests, and zeros to those without.
 * @throws WrongAnswerError
 */
export async function askModels(
  { models }: Manifest,
  golden: ReadonlyMap<string, GoldenRequest[]>,
  { triton, before, signal, onAsk, report }: AskModelsOptions,
): Promise<AskedModels> {
  const asked: AskedModels = {};
  for (const [name, requests] of golden) {
    const { served } = models[name] as ManifestModel;
    onAsk?.(name);
    const answered = await askModel(triton, { name, served }, requests, {
      zerosWereAnswered: before[name] === 'zeros',
      signal,
    });
    asked[name] = answered.asked;
    report({ event: 'asked', model: name, result: answered.text, hint: answered.hint });
  }
  return asked;
}
