import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import { topClasses, toPicture } from '../../../src/local/sample-requests';
import { hasRandomWeights, renderPage, type LocalPage } from '../../../src/local/page';
import type { LocalResult, ModelRow } from '../../../src/local/report';
import type { SmokeTestResult } from '../../../src/local/smoke-test';

const RANDOM = 'seeded random weights (seed 0), not pretrained';

const row = (model: string, fields: Partial<ModelRow> = {}): ModelRow => ({
  model,
  version: '1',
  platform: 'pytorch_libtorch',
  state: 'READY',
  reason: '',
  isQuick: false,
  weights: 'no weights',
  composedOf: [],
  ...fields,
});

const answer = (model: string, fields: Partial<SmokeTestResult> = {}): SmokeTestResult => ({
  model,
  milliseconds: 12,
  result: 'an answer',
  ...fields,
});

const render = (result: Partial<LocalResult>, fields: Partial<LocalPage> = {}): Promise<string> =>
  renderPage({
    repository: join(process.cwd(), 'model-repo'),
    once: false,
    made: new Date('2026-01-02T03:04:05Z'),
    ...fields,
    result: { models: [], notServed: [], answers: [], firstAnswerMs: 2000, ...result } as LocalResult,
  });

/** What a reader sees of the page, between its tags. */
const read = async (...page: Parameters<typeof render>): Promise<string> =>
  (await render(...page))
    .replace(/<style>.*<\/style>/s, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll('&quot;', '"');

test('renderPage escapes every text of models and users, and loads nothing from outside', async () => {
  const hostile = (place: string): string => `</td><i id="${place}">'`;
  const fields = (...names: string[]): object => Object.fromEntries(names.map((name) => [name, hostile(name)]));
  const image = { width: 1, height: 1, data: new Uint8Array(3) };
  const exhibit = {
    ...{ title: hostile('title'), pictures: [{ caption: hostile('caption'), image }] },
    values: [{ text: hostile('text'), share: 1, shown: hostile('shown') }],
  };
  const text = await render(
    {
      models: [
        row(hostile('name'), fields('version', 'platform', 'weights', 'state', 'reason')),
        row('asked', { composedOf: [hostile('step')] }),
      ],
      answers: [answer('asked', { ...fields('result', 'error'), exhibit })],
    },
    { repository: hostile('folder') },
  );
  expect(text).not.toContain('<i ');
  const places = 'name version platform weights state reason step result error title caption text shown folder';
  for (const place of places.split(' ')) expect(text).toContain(`i id=&quot;${place}&quot;&gt;&#39;`);
  expect(text).toMatch(/^<!doctype html>/);
  expect(text).toContain(`content="default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-`);
  expect(text).not.toMatch(
    /<(script|iframe|object|embed)|\bsrc="(?!data:)|<link(?! rel="icon" href="data:,")|url\(|@import/,
  );
});

test('renderPage shows the served models, the reason for each other model, and the next commands', async () => {
  const models = [
    row('adds', { weights: RANDOM }),
    row('both', { platform: 'ensemble', weights: '', composedOf: ['adds', 'more'] }),
    row('plan', { version: '', platform: 'tensorrt_plan', state: 'not served here', reason: 'it runs elsewhere' }),
  ];
  const answers = [answer('adds'), answer('both')];
  const text = await read({ models, answers });
  expect(text).toContain('model-repo on a real Triton and a real S3, 2026-01-02 03:04 UTC. 2 of 3 models are READY');
  expect(text).toContain(`adds pytorch_libtorch 1 READY an answer 12 ms ${RANDOM}`);
  expect(text).toContain('both ensemble 1 READY an answer 12 ms those of adds, more');
  expect(text).toContain('plan tensorrt_plan not served here it runs elsewhere');
  expect(text).toContain('Every served model answered');
  expect(text).toMatch(/Run in another terminal: npm run infer -- adds --local .*npm run status -- --local/);
  expect(await read({ models, answers }, { once: true })).toContain('Start them again with "npm run local"');
});

test('renderPage shows which models failed and why, and which ones are coming', async () => {
  const models = [row('poor'), row('slow', { state: 'tracing' })];
  const answers = [answer('poor', { result: '', error: 'HTTP 500: out of memory' })];
  const text = await read({ models, answers });
  expect(text).toContain('No correct answer from poor');
  expect(text).toContain('poor pytorch_libtorch 1 READY HTTP 500: out of memory');
  expect(await read({ models })).toContain('Still coming: slow');
});

test.each([
  [RANDOM, true],
  ['GFPGANv1.pth', false],
])('renderPage labels the answer of a model with %s', async (weights, isRandom) => {
  const models = [row('ensemble', { weights: '', composedOf: ['network'] }), row('network', { weights }), row('other')];
  const exhibit = { title: 'Face restoration', pictures: [], values: [] };
  const text = await read({ models, answers: [answer('ensemble', { exhibit })] });
  expect(text.includes('Random weights.')).toBe(isRandom);
});

test('hasRandomWeights recognises the description that tracing writes', () => {
  const written = /cls\("random", f"([^"]*)"/.exec(readFileSync(join(paths.python, 'tracing', 'contract.py'), 'utf8'));
  expect(hasRandomWeights(written?.[1] ?? '')).toBe(true);
});

test('toPicture rejects a tensor that is not a picture', () => {
  expect(() => toPicture({ name: 'y', datatype: 'FP32', shape: [1, 1, 3], data: new Float32Array(3) })).toThrow(
    'output y is FP32 [1, 1, 3], not a picture (UINT8 [height, width, 3])',
  );
  expect(() => toPicture({ name: 'y', datatype: 'UINT8', shape: [3], data: new Uint8Array(3) })).toThrow('UINT8 [3]');
});

test('topClasses returns the five most probable classes by softmax, also for scores too large for exp', () => {
  expect(topClasses([1000, 1001, 999, 0, 0, 0, 0], ['a', 'b', 'c'])).toMatchObject([
    { text: 'b', share: expect.closeTo(0.66524, 5) as number, shown: '66.5 %' },
    { text: 'a', share: expect.closeTo(0.24473, 5) as number },
    { text: 'c', share: expect.closeTo(0.09003, 5) as number },
    { text: '3', share: 0 },
    { text: '4', share: 0 },
  ]);
});
