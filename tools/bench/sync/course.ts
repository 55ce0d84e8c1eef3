import type { Arena, Sources } from './arena';
import type { RowResult } from './goals';

/** Context of the measurement of a row. */
export interface Course {
  arena: Arena;
  /** A second server that logs each request. Nothing is timed on it. */
  counting: () => Promise<{ arena: Arena; accessLog: string }>;
  sources: Sources;
  repetitions: number;
  /** Divisor of file counts and sizes, for a quick test run. */
  reduction: number;
  onRun: (round: number, name: string) => void;
}

/** Result of a row. */
export type Measured = Omit<RowResult, 'name' | 'title'>;
