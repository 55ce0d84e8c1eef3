import type { ScannerFinding } from './scanners';

/** A check whose failure is accepted. */
export interface Waiver {
  check: string;
  /** Part of the name of what it is about. Default: anything. */
  resource?: RegExp;
  reason: string;
}

/** As many as there may be, for all scanners together. */
export const MOST_WAIVERS = 3;

export const WAIVERS: readonly Waiver[] = [];

export const isWaived = ({ check, resource }: ScannerFinding): boolean =>
  WAIVERS.some((waiver) => waiver.check === check && (waiver.resource?.test(resource) ?? true));
