import { setTimeout as sleep } from 'node:timers/promises';
import type { Progress, Step } from '../cli/progress';
import { formatBytes } from '../core/format';
import { publish, type Published, type PublishOptions } from '../publish/publish';
import { withShortWarmUp } from './short-warm-up';

/** Time to wait for a manual publish into the local bucket. */
export const LOCK_TIMEOUT_MS = 120_000;

export interface SelectedOptions extends Pick<PublishOptions, 'repository' | 'store' | 'location' | 'loadTimeoutMs'> {
  /** Of the step. */
  title: string;
  names: readonly string[];
  /** Models of the release of an earlier run. */
  held: readonly string[];
  /** Time to undo a publish that is interrupted. Default: no limit. */
  undoMs?: number;
  progress: Progress;
  defer: (undo: () => Promise<void>) => void;
}

/**
 * Publishes the models of a start with the code of `npm run sync-models`. Only this machine depends on the local bucket, so
 * versions whose files changed are replaced. A release is the state of all replicas, so models that are not served now are
 * removed from the release; a rollback restores them.
 * @param getWay how the release reaches the server; the step ends with the publish, if not before
 */
export async function publishSelected(
  { title, names, held, undoMs, progress, defer, ...options }: SelectedOptions,
  getWay: (step: Step, signal: AbortSignal) => Pick<PublishOptions, 'replicas'> & Partial<PublishOptions>,
): Promise<Published> {
  const others = held.filter((name) => !names.includes(name));
  if (others.length > 0) {
    progress.line(
      `     ${others.join(', ')} of an earlier run are removed from the local release; a rollback restores them`,
    );
  }
  const step = progress.step(title);
  const stop = new AbortController();
  let bytes = 0;
  const published = publish({
    ...options,
    models: names,
    replacePublished: true,
    removeOthers: true,
    adaptToThisMachine: withShortWarmUp,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
    signal: stop.signal,
    onBytes: (key, sent) => step.update(`${formatBytes((bytes += sent))}, last ${key}`),
    ...getWay(step, stop.signal),
  });
  // If the start is interrupted, the S3 server stops only after this.
  defer(async () => {
    stop.abort(new Error('the start was interrupted'));
    const limit = undoMs === undefined ? [] : [sleep(undoMs, undefined, { ref: false })];
    await Promise.race([published.catch(() => undefined), ...limit]);
  });
  try {
    const result = await published;
    step.done();
    return result;
  } catch (error) {
    step.failed();
    throw error;
  }
}
