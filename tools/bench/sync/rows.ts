import type { Course, Measured } from './course';
import { bestOf, peakOf, ratioTo, type Goal } from './goals';
import { OURS } from './contestants';
import { measureReady } from './ready';
import { countOf } from './requests';
import { changed, coldTenThousand, coldThousand, large, noOp, NOTHING_CHANGED } from './runs';
import { start } from './start';

/** One kind of work, and its goals. */
export interface Row {
  name: string;
  title: string;
  goals: readonly Goal[];
  run: (course: Course) => Promise<Measured>;
}

/** Patterns of the tool names by family. */
const RCLONE = /^rclone/;
const S5CMD = /^s5cmd/;
const AWS = /^aws/;
const ANY_PEER = /^(s5cmd|rclone|aws)/;

export const ROWS: readonly Row[] = [
  {
    name: 'cold-1000',
    title: '1,000 files of 64 KiB to an empty prefix',
    goals: [
      { what: 'time, of the best rclone', limit: 1, value: (row) => ratioTo(row, 'seconds', bestOf(row, RCLONE)) },
      { what: 'time, of aws-cli', limit: 0.3, value: (row) => ratioTo(row, 'seconds', bestOf(row, AWS)) },
    ],
    run: coldThousand,
  },
  {
    name: 'cold-10000',
    title: '10,000 files of 1 KiB to an empty prefix',
    goals: [
      { what: 'time, of the best rclone', limit: 1, value: (row) => ratioTo(row, 'seconds', bestOf(row, RCLONE)) },
      { what: 'time, of s5cmd', limit: 0.5, value: (row) => ratioTo(row, 'seconds', bestOf(row, S5CMD)) },
      { what: 'peak memory, MB', limit: 100, value: (row) => peakOf(row, OURS) / 1e6 },
    ],
    run: coldTenThousand,
  },
  {
    name: 'large',
    title: '4 files of 500 MB to an empty prefix',
    goals: [
      { what: 'time, of the best peer', limit: 1.05, value: (row) => ratioTo(row, 'seconds', bestOf(row, ANY_PEER)) },
      { what: 'processor time, of aws-cli', limit: 1, value: (row) => ratioTo(row, 'cpuSeconds', bestOf(row, AWS)) },
      { what: 'peak memory, MB', limit: 150, value: (row) => peakOf(row, OURS) / 1e6 },
      {
        what: 'peak memory, of that with files of a quarter of the size',
        limit: 1.1,
        value: (row) => peakOf(row, OURS) / (row.figures?.['peak bytes with quarter files'] ?? NaN),
      },
    ],
    run: large,
  },
  {
    name: 'no-op',
    title: '10,000 files that are there already',
    goals: [
      { what: 'time, of s5cmd', limit: 0.5, value: (row) => ratioTo(row, 'seconds', bestOf(row, S5CMD)) },
      { what: 'LIST requests', limit: 10, value: (row) => countOf(row.requests?.[OURS] ?? {}, 'ListObjects') },
      { what: 'HEAD requests', limit: 0, value: (row) => countOf(row.requests?.[OURS] ?? {}, 'Head') },
      { what: 'peak memory, MB', limit: 100, value: (row) => peakOf(row, OURS) / 1e6 },
    ],
    run: noOp,
  },
  {
    name: 'changed',
    title: '1 of 10,000 files changed: same size, older time',
    goals: [
      { what: 'time, of the own no-op', limit: 1.05, value: (row) => ratioTo(row, 'seconds', NOTHING_CHANGED) },
      {
        what: 'PUT requests for files, not config.pbtxt',
        limit: 1,
        value: (row) => row.figures?.['files written'] ?? NaN,
      },
    ],
    run: changed,
  },
  {
    name: 'ready',
    title: 'a new version of one model to READY on a Triton server',
    goals: [
      {
        what: 'time, of one PUT and a load from a folder',
        limit: 1.15,
        value: (row) => ratioTo(row, 'seconds', bestOf(row, ANY_PEER)),
      },
    ],
    run: measureReady,
  },
  { name: 'start', title: 'start and end of the program, nothing done', goals: [], run: start },
];
