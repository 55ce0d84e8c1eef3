import { XMLParser } from 'fast-xml-parser';
import { syncChart } from '../../../../tools/bench/sync/chart';
import { rowJson, rowText, type JudgedRow } from '../../../../tools/bench/sync/report';

const MB = 1e6;
const ROW: JudgedRow = {
  name: 'no-op',
  title: 'Files <there> & "ready"',
  samples: new Map([
    ['sync-models', [0.25, 0.5, 0.75].map((seconds) => ({ seconds, cpuSeconds: 0.123456, peakBytes: 80 * MB }))],
    ['s5cmd', [1, 2, 1.5].map((seconds) => ({ seconds, cpuSeconds: 0.2, peakBytes: seconds * 30 * MB }))],
  ]),
  requests: { 'sync-models': { GetObject: 2, ListObjectsV2: 10 } },
  noticed: { s5cmd: false },
  goals: [
    { what: 'time, of s5cmd', limit: 0.5, value: 0.25, met: true },
    { what: 'HEAD requests', limit: 0, value: 3, met: false },
  ],
};

test('a row as text', () => {
  expect(rowText(ROW)).toBe(
    [
      'Files <there> & "ready"',
      '',
      'program        time  processor time  peak memory  sync-models takes  requests                       saw the change',
      '-----------  ------  --------------  -----------  -----------------  -----------------------------  --------------',
      'sync-models  0.50 s          0.12 s      80.0 MB                     10 ListObjectsV2, 2 GetObject',
      's5cmd        1.50 s          0.20 s      60.0 MB             0.25 x                                 no',
      '',
      'goal            at most  reached',
      '--------------  -------  -------  -------',
      'time, of s5cmd     0.50     0.25  met',
      'HEAD requests         0        3  NOT MET',
    ].join('\n'),
  );
});

test('a row without goals has no table of them', () => {
  expect(rowText({ ...ROW, goals: [] })).not.toContain('goal');
});

test('a row as JSON has every round', () => {
  const { name, contestants, goals } = JSON.parse(JSON.stringify(rowJson(ROW))) as Record<string, unknown>;
  expect({ name, goals }).toEqual({ name: 'no-op', goals: ROW.goals });
  expect(contestants).toMatchObject({
    'sync-models': { seconds: [0.25, 0.5, 0.75], cpuSeconds: [0.1235, 0.1235, 0.1235] },
    s5cmd: { peakBytes: [30 * MB, 60 * MB, 45 * MB] },
  });
});

interface Svg {
  svg: {
    '@_width': string;
    '@_height': string;
    rect: Record<string, string>[];
    text: { '#text': string; '@_x': string; '@_y': string }[];
  };
}

test('the chart has a bar for each program, as long as its time, within its frame', () => {
  const chart = syncChart([ROW, { ...ROW, title: 'again' }], 'a machine of 2 < 3 cores');
  const { svg } = new XMLParser({ ignoreAttributes: false, parseTagValue: false }).parse(chart) as Svg;
  const texts = svg.text.map((one) => one['#text']);
  expect(texts.filter((one) => one === 's5cmd')).toHaveLength(2);
  expect(texts).toEqual(expect.arrayContaining(['Files <there> & "ready"', 'again', '0.50 s', '1.50 s']));
  expect(texts.at(-1)).toContain('a machine of 2 < 3 cores');

  const bars = svg.rect.slice(1);
  expect(bars).toHaveLength(4);
  const [ours, theirs] = bars.map((one) => Number(one['@_width'])) as [number, number];
  expect(ours / theirs).toBeCloseTo(0.5 / 1.5, 2);
  for (const one of bars) {
    expect(Number(one['@_x']) + Number(one['@_width'])).toBeLessThan(Number(svg['@_width']) - 50);
  }
  for (const one of svg.text) expect(Number(one['@_y'])).toBeLessThan(Number(svg['@_height']));
});
