import type { Arena, Sources } from './arena';
import type { RowResult } from './goals';

/** What a row has to measure with. */
export interface Course {
  arena: Arena;
  /** A second server that writes down each request; nothing is timed on it. */
  counting: () => Promise<{ arena: Arena; accessLog: string }>;
  sources: Sources;
  repetitions: number;
  /** Divides numbers and sizes of files, for a look at whether all of it works. */
  reduction: number;
  onRun: (round: number, name: string) => void;
}

/** What a row gives. */
export type Measured = Omit<RowResult, 'name' | 'title'>;
