import { performance } from 'node:perf_hooks';

/**
 * A time in the future by the monotonic and by the wall clock, whichever comes first: one may stand still while the
 * machine is suspended, and the other may be set back.
 */
export class Deadline {
  private readonly monotonic: number;
  private readonly wall: number;

  /** @param ms from now; Infinity: never */
  constructor(ms: number) {
    this.monotonic = performance.now() + ms;
    this.wall = Date.now() + ms;
  }

  /** 0 from the deadline on. */
  get leftMs(): number {
    return Math.max(0, Math.min(this.monotonic - performance.now(), this.wall - Date.now()));
  }
}
