import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../../core/abort';
import { UserError } from '../../core/errors';
import type { ApplyOptions } from './options';
import type { RepositorySnapshot } from '../plan/snapshot';

const LOOK_AGAIN_MS = 1000;

/** Waits while another publisher holds the lock, and reports each holder once. */
export class WaitForLock {
  private readonly deadline: number;
  private announced: string | undefined;

  constructor(private readonly options: ApplyOptions) {
    this.deadline = Date.now() + options.lockTimeoutMs;
  }

  /**
   * Waits a moment if another publisher holds the lock.
   * @returns whether to read the repository again
   * @throws UserError after the timeout
   */
  async isHeld({ lock: { heldBy } }: RepositorySnapshot): Promise<boolean> {
    if (heldBy === undefined) return false;
    if (Date.now() > this.deadline) {
      throw new UserError(`another publisher is at work: ${heldBy}`, {
        hint: 'wait until it has finished, or raise --wait; the lock of a publisher that died expires after a minute',
      });
    }
    if (this.announced !== heldBy) this.options.onStage?.(`another publisher is at work, waiting: ${heldBy}`);
    this.announced = heldBy;
    const { signal } = this.options;
    await abortable(sleep(LOOK_AGAIN_MS), signal);
    return true;
  }
}
