import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { classes, toPicture } from '../../../src/local/displayed-results';
import { renderPage, requirePageFolder, writePage, type LocalPage } from '../../../src/local/page';
import { html } from '../../../src/local/page/html';
import { isRandom } from '../../../src/local/page/html-components';
import { printJson, type LocalResult, type ModelRow } from '../../../src/local/report';
import type { SmokeTestResult } from '../../../src/local/smoke-test';
import { paths } from '../../../src/core/paths';

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
  protocol: 'HTTP',
  milliseconds: 12,
  result: 'an answer',
  ...fields,
});

const page = (result: Partial<LocalResult>, fields: Partial<LocalPage> = {}): LocalPage => ({
  repository: join(process.cwd(), 'model-repo'),
  once: false,
  made: new Date('2026-01-02T03:04:05Z'),
  ...fields,
  result: {
    models: [],
    notServed: [],
    answers: [],
    firstAnswerMs: 2000,
    milliseconds: 4000,
    endpoints: {
      http: 'http://127.0.0.1:8123',
      grpc: '127.0.0.1:8124',
      metrics: 'http://127.0.0.1:8125/metrics',
      s3: 'http://127.0.0.1:9000',
      repository: 's3://models/local',
      tritonLog: '/logs/triton.log',
      agent: 'http://127.0.0.1:8126',
      agentLog: '/logs/agent.log',
    },
    ...result,
  },
});

/** What a reader sees of the HTML, between its tags. */
const getText = (text: string): string =>
  text
    .replace(/<style>.*<\/style>/s, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"');

const grey = (size: number, value: number) => ({
  width: size,
  height: size,
  data: new Uint8Array(size * size * 3).fill(value),
});

describe('html', () => {
  test.each([
    ['<script>alert(1)</script>', '&lt;script&gt;alert(1)&lt;/script&gt;'],
    [`" onload='x' &amp;`, '&quot; onload=&#39;x&#39; &amp;amp;'],
    ['&lt;b&gt;', '&amp;lt;b&amp;gt;'],
  ])('escapes the value %s', (content, escaped) => {
    expect(html`<b title="${content}">${content}</b>`.text).toBe(`<b title="${escaped}">${escaped}</b>`);
  });

  test('inserts templates and lists, and nothing for undefined', () => {
    expect(html`${['<', 1].map((x) => html`<i>${x}</i>`)}${undefined}`.text).toBe('<i>&lt;</i><i>1</i>');
  });
});

test('renderPage escapes every text of models and users', async () => {
  const hostile = (place: string): string => `</td><i id="${place}">'`;
  const text = await renderPage(
    page(
      {
        models: [
          row(hostile('name'), {
            version: hostile('version'),
            platform: hostile('platform'),
            weights: hostile('weights'),
          }),
          row(hostile('ensemble'), { composedOf: [hostile('step')] }),
          row(hostile('absent'), { version: '', state: hostile('state'), reason: hostile('reason') }),
        ],
        answers: [
          answer(hostile('asked'), { result: hostile('result') }),
          answer(hostile('failed'), { result: '', error: hostile('error') }),
          answer('resnet', {
            display: { kind: 'classes', picture: grey(2, 9), classes: [{ label: hostile('label'), probability: 1 }] },
          }),
          answer('bert', { display: { kind: 'texts', texts: [hostile('text'), hostile('other')], similarities: [1] } }),
        ],
        endpoints: {
          http: hostile('http'),
          grpc: hostile('grpc'),
          metrics: hostile('metrics'),
          s3: hostile('s3'),
          repository: hostile('repository'),
          tritonLog: hostile('log'),
          agent: hostile('agent'),
          agentLog: hostile('agent log'),
        },
      },
      { repository: hostile('folder') },
    ),
  );
  expect(text).not.toContain('<i ');
  const places =
    'name version platform weights step state reason asked result failed error label text other http grpc metrics s3 repository log folder';
  for (const place of places.split(' ')) expect(text).toContain(`&lt;/td&gt;&lt;i id=&quot;${place}&quot;&gt;&#39;`);
});

test('renderPage loads nothing from outside, and its policy forbids it', async () => {
  const text = await renderPage(page({ models: [row('adds')], answers: [answer('adds')] }));
  expect(text).toMatch(/^<!doctype html>/);
  expect(text).toContain(`content="default-src 'none'; img-src data:; style-src 'sha256-`);
  expect(text).not.toMatch(
    /<(script|iframe|object|embed)|\bsrc="(?!data:)|<link(?! rel="icon" href="data:,")|url\(|@import/,
  );
});

describe('renderPage shows', () => {
  test('the served models, and the reason for each other model', async () => {
    const models = [
      row('adds', { weights: RANDOM }),
      row('both', { platform: 'ensemble', weights: '', composedOf: ['adds', 'more'] }),
      row('plan', {
        version: '',
        platform: 'tensorrt_plan',
        state: 'not served here',
        reason: 'it runs elsewhere',
      }),
    ];
    const text = getText(await renderPage(page({ models, answers: [answer('adds'), answer('both')] })));
    expect(text).toContain('2 of 3');
    expect(text).toContain(`adds pytorch_libtorch 1 READY ${RANDOM}`);
    expect(text).toContain('both ensemble 1 READY weights of adds, more');
    expect(text).toContain('plan tensorrt_plan - not served here it runs elsewhere');
    expect(text).toContain('Every served model answered');
    expect(text).toContain('model-repo on a real Triton');
    expect(text).toContain('2026-01-02 03:04 UTC');
  });

  test('which model failed, over which protocol, and the error', async () => {
    const answers = [
      answer('good'),
      answer('good', { protocol: 'gRPC', result: 'same as over HTTP' }),
      answer('poor', { result: '', error: 'HTTP 500: out of memory' }),
      answer('poor', { protocol: 'gRPC', milliseconds: 99_000, result: 'fine' }),
    ];
    const text = getText(await renderPage(page({ models: [row('good'), row('poor')], answers })));
    expect(text).toContain('No correct answer from poor');
    expect(text).not.toContain('Every served model answered');
    expect(text).toContain('3 of 4');
    expect(text).toContain('good an answer 12 ms 12 ms');
    expect(text).toContain('poor HTTP failed: HTTP 500: out of memory - 1 min 39 s');
  });

  test('no section of answers if no model has one', async () => {
    const text = await renderPage(page({}));
    expect(getText(text)).toContain('0 of 0');
    expect(text).not.toContain('<img');
    expect(getText(text)).not.toContain('Answers of the models');
  });

  test('commands for the running servers, or for those of the next run', async () => {
    const models = [row("it's"), row('resnet')];
    const now = getText(await renderPage(page({ models })));
    expect(now).toContain(String.raw`curl -s 'http://127.0.0.1:8123/v2/models/it'\''s'`);
    expect(now).toContain('npm run infer -- resnet src/local/face-256.jpg --local');
    expect(now).toContain('Triton log /logs/triton.log');
    const later = getText(await renderPage(page({ models }, { once: true })));
    expect(later).toContain('This run ended');
    expect(later).toContain('npm run infer -- resnet src/local/face-256.jpg --local');
    expect(later).not.toContain('8123');
    expect(later).not.toContain('Triton log');
  });
});

describe('pictures of the page', () => {
  const restored = (weights: string): Partial<LocalResult> => ({
    models: [
      row('ensemble', { weights: '', composedOf: ['network'] }),
      row('network', { weights }),
      row('other', { weights: RANDOM }),
    ],
    answers: [answer('ensemble', { display: { kind: 'restoration', before: grey(4, 10), after: grey(8, 200) } })],
  });

  test('are labelled as random if the weights are random', async () => {
    const text = getText(await renderPage(page(restored(RANDOM))));
    expect(text).toContain('Answer with random weights');
    expect(text).toContain('Random weights. The weights of the network');
    expect(text).not.toMatch(/restored/i);
  });

  test('are labelled as restored if the weights of the model are real', async () => {
    const text = getText(await renderPage(page(restored('GFPGANv1.pth'))));
    expect(text).toContain('Answer: the restored face');
    expect(text).not.toContain('Random weights.');
  });

  test('toPicture rejects a tensor that is not a picture', () => {
    expect(() => toPicture({ name: 'y', datatype: 'FP32', shape: [1, 1, 3], data: new Float32Array(3) })).toThrow(
      'output y is FP32 [1, 1, 3], not a picture (UINT8 [height, width, 3])',
    );
    expect(() => toPicture({ name: 'y', datatype: 'UINT8', shape: [3], data: new Uint8Array(3) })).toThrow('UINT8 [3]');
  });
});

test('printJson prints the answers without their pictures', () => {
  const picture = { width: 1, height: 1, data: Buffer.from([1, 2, 3]) };
  const display = { kind: 'restoration', before: picture, after: picture } as const;
  const printed: string[] = [];
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((text) => printed.push(String(text)) > 0);
  try {
    printJson(page({ answers: [answer('gfpgan', { display })] }).result, '/page.html');
  } finally {
    write.mockRestore();
  }
  const { answers, page: file } = JSON.parse(printed.join('')) as { answers: object[]; page: string };
  expect([answers, file]).toEqual([[answer('gfpgan')], '/page.html']);
});

test('classes returns the five most probable classes by softmax, also for scores too large for exp', () => {
  expect(classes([1000, 1001, 999, 0, 0, 0, 0], ['a', 'b', 'c'])).toEqual([
    { label: 'b', probability: expect.closeTo(0.66524, 5) as number },
    { label: 'a', probability: expect.closeTo(0.24473, 5) as number },
    { label: 'c', probability: expect.closeTo(0.09003, 5) as number },
    { label: '3', probability: 0 },
    { label: '4', probability: 0 },
  ]);
});

test('isRandom recognises the description that tracing writes', () => {
  const said = /cls\("random", f"([^"]*)"/.exec(readFileSync(join(paths.python, 'tracing', 'contract.py'), 'utf8'));
  expect(isRandom(said?.[1] ?? '')).toBe(true);
  expect(isRandom('all-MiniLM-L6-v2')).toBe(false);
});

describe('writePage', () => {
  const folder = mkdtempSync(join(tmpdir(), 'page-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('replaces the previous page, and leaves no other file', async () => {
    const path = join(folder, 'page.html');
    writeFileSync(path, 'old');
    await writePage(path, page({}));
    expect(readFileSync(path, 'utf8')).toMatch(/^<!doctype html>/);
    expect(readdirSync(folder)).toEqual(['page.html']);
  });

  test('reports a path that cannot be written, with the next step', async () => {
    await expect(writePage(folder, page({}))).rejects.toMatchObject({
      message: expect.stringContaining(`cannot write the page ${folder}`) as string,
      hint: 'choose another path with --page FILE',
    });
    expect(existsSync(`${folder}.${process.pid}.new`)).toBe(false);
  });

  test.each([
    [join(folder, 'not-there', 'page.html'), `${join(folder, 'not-there')} is not a folder`],
    [folder, 'the path is a folder'],
  ])('requirePageFolder rejects --page %s', (path, message) => {
    expect(() => requirePageFolder(path)).toThrow(message);
  });
});
