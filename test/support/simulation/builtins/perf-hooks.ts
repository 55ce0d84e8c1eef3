import { clock } from '../clock';

/** `node:perf_hooks` in virtual time. */
export const performance = { now: (): number => clock().monotonic() };
