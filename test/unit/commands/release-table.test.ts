import { releaseTable } from '../../../src/commands/release-table';
import type { ListedRelease } from '../../../src/publish/list-releases';

const release = (more: Partial<ListedRelease>): ListedRelease => ({
  id: '20261121T093000123Z-1f2e3d4c',
  createdAt: '2026-11-21T09:30:00.123Z',
  origin: 'sync-models /home/ana/models/model-repo',
  by: 'ana@build-7',
  isCurrent: false,
  serves: {},
  weights: {},
  changes: [],
  ...more,
});

const found = [
  release({
    id: '20261121T110000456Z-0a1b2c3d',
    createdAt: '2026-11-21T11:00:00.456Z',
    origin: 'rollback to 20261121T093000123Z-1f2e3d4c',
    isCurrent: true,
    changes: ['resnet 2 -> 1'],
  }),
  release({
    origin: 'promoted from s3://staging-models/models, release 20261120T120000000Z-99887766',
    by: 'runner@fv-az1234-567-with-a-long-name',
    commit: '1234567890123456789012345678901234567890+',
    message: 'what was said in staging',
    changes: ['bert 1 -> 2', 'resnet 1 -> 2', 'removed gfpgan'],
  }),
  release({
    commit: '89abcdef01234567890123456789012345678901',
    message: 'ranker: train again',
    notAsked: true,
    changes: ['new bert 1', 'new gfpgan 1', 'new resnet 1', 'new wav2vec_general_v2 1'],
  }),
];

const widest = (table: string): number => Math.max(...table.split('\n').map((line) => line.length));

test.each([80, 100, 120, 160])('releaseTable fits a terminal of %d columns', (columns) => {
  const table = releaseTable(found, columns);
  expect(widest(table)).toBeLessThanOrEqual(columns);
  expect(table).toMatch(/\* {2}0a1b2c3d .* rollback to 1f2e3d4c +resnet 2 -> 1\n/);
});
