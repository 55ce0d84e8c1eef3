import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { exec } from '../../src/core/exec';
import { readNpy, writeNpy } from '../../src/model/media/npy';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { toTensor } from '../../src/triton/tensor-from-json';
import type { TritonProcess } from '../../src/local/triton-server';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());
const path = (name: string): string => join(scratch.directory, name);

/** A model of the python backend whose output `y` is an expression of its input `x`, and of `mask` if it has one. */
const program = (expression: string): string => `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            x, mask = inputs["x"], inputs.get("mask")
            y = pb_utils.Tensor("y", np.ascontiguousarray(${expression}))
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
`;

const config = (...lines: string[]): string =>
  ['backend: "python"', 'instance_group { count: 1 kind: KIND_CPU }', ...lines].join('\n');

/** Words of a tokenizer; their ids are their indices. */
const WORDS = ['[UNK]', 'one', 'two', 'three'];

const repository = writeRepository(path('repository'), {
  ...addingModel('adds', { 1: 10, 2: 20 }),
  'negative/config.pbtxt': config(
    'input { name: "x" data_type: TYPE_UINT8 dims: [-1, -1, 3] }',
    'output { name: "y" data_type: TYPE_UINT8 dims: [-1, -1, 3] }',
  ),
  'negative/1/model.py': program('255 - x'),
  'whole/config.pbtxt': [
    'platform: "ensemble"',
    'input { name: "x" data_type: TYPE_UINT8 dims: [-1, -1, 3] }',
    'output { name: "y" data_type: TYPE_UINT8 dims: [-1, -1, 3] }',
    'ensemble_scheduling {',
    '  step { model_name: "negative" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "n" } }',
    '  step { model_name: "negative" model_version: -1 input_map { key: "x" value: "n" } output_map { key: "y" value: "y" } }',
    '}',
  ].join('\n'),
  'whole/1/.keep': '',
  'small/config.pbtxt': config(
    'input { name: "x" data_type: TYPE_UINT8 dims: [4, 6, 3] }',
    'output { name: "y" data_type: TYPE_UINT8 dims: [4, 6, 3] }',
  ),
  'small/1/model.py': program('255 - x'),
  // The scores are the means of red, green and blue.
  'colours/config.pbtxt': config(
    'max_batch_size: 2',
    'input { name: "x" data_type: TYPE_FP32 dims: [3, 4, 4] }',
    'output { name: "y" data_type: TYPE_FP32 dims: [3] label_filename: "labels.txt" }',
  ),
  'colours/labels.txt': 'red\ngreen\nblue\n',
  'colours/1/model.py': program('x.mean(axis=(2, 3), dtype=np.float32)'),
  // Returns the sum of the ids and their number.
  'words/config.pbtxt': config(
    'max_batch_size: 4',
    'input { name: "x" data_type: TYPE_INT64 dims: -1 }',
    'input { name: "mask" data_type: TYPE_INT64 dims: -1 }',
    'output { name: "y" data_type: TYPE_INT64 dims: 2 }',
  ),
  'words/tokenizer.json': JSON.stringify({
    version: '1.0',
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
    model: { type: 'WordLevel', vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])), unk_token: '[UNK]' },
  }),
  'words/1/model.py': program('np.stack([(x * mask).sum(axis=1), mask.sum(axis=1)], axis=1)'),
  'broken/config.pbtxt': config(
    'input { name: "x" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
  ),
  'broken/1/model.py': 'raise RuntimeError("broken")\n',
});

let server: TritonProcess;
beforeAll(async () => {
  server = await testTriton(scratch, repository);
  const colour = (r: number, g: number, b: number): ReturnType<typeof sharp> =>
    sharp({ create: { width: 12, height: 8, channels: 3, background: { r, g, b } } });
  await colour(200, 100, 50).png().toFile(path('warm.png'));
  await colour(0, 20, 250).png().toFile(path('cold.png'));
});

/** Runs the command against the server, over HTTP. */
const infer = (...args: string[]): Promise<Finished> =>
  runCommandLine('infer', [...args, '--url', server.httpUrl, '--repo', repository]);

/** Runs the command and returns its answer as JSON. */
async function answer(...args: string[]): Promise<{ outputs: { data: unknown }[]; classes?: Record<string, unknown> }> {
  const { code, stdout, stderr } = await infer(...args, '--json');
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Awaited<ReturnType<typeof answer>>;
}

test('describes the inputs of a model', async () => {
  const { code, stdout } = await infer('colours');
  expect(code).toBe(0);
  expect(stdout).toContain('colours, python, versions 1, batches of up to 2; -1 means any length\n');
  expect(stdout).toMatch(
    /input +x +FP32 +\[-1, 3, 4, 4\]\noutput +y +FP32 +\[-1, 3\]\n\nnpm run infer -- colours PICTURE.jpg --url /,
  );
  for (const [model, source] of [
    ['words', '"a text"'],
    ['adds', 'x=FILE.npy'],
  ] as const) {
    expect((await infer(model)).stdout).toMatch(new RegExp(`npm run infer -- ${model} ${source} --url `));
  }
});

test('converts a picture to a picture', async () => {
  const out = path('negative.png');
  const { code, stdout } = await infer('negative', path('warm.png'), '-o', out);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^negative, version 1, answered in .*\n\n.*\n.*\ny +UINT8 +\[8, 12, 3\]/);
  const { data, info } = await sharp(out).raw().toBuffer({ resolveWithObject: true });
  expect([info.width, info.height, ...data.subarray(0, 3)]).toEqual([12, 8, 55, 155, 205]);
});

test('prints labels in descending order of score', async () => {
  const { stdout } = await infer('colours', path('warm.png'), '--top', '2');
  // (200 / 255 - mean) / deviation of ImageNet.
  expect(stdout).toMatch(/score +class +label\n[- ]+\n *1\.307 +0 +red\n *-0\.285 +1 +green\n$/);
});

test('sends pictures as one batch and prints the labels of each picture', async () => {
  const { stdout } = await infer('colours', path('warm.png'), path('cold.png'), '--top', '1');
  expect(stdout.match(/\bred\b|\bblue\b|\w+\.png/g)).toEqual(['warm.png', 'red', 'cold.png', 'blue']);
  const three = Array.from({ length: 3 }, () => path('warm.png'));
  expect(await infer('colours', ...three)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("batch-size must be <= 2 for 'colours'") as string,
  });
});

test('prints classes, or values on request, as JSON', async () => {
  const { classes, outputs } = await answer('colours', path('warm.png'), '--top', '1');
  // The answer of Triton's classification extension, because the values were not requested.
  expect(outputs).toEqual([
    { name: 'y', datatype: 'BYTES', shape: [1, 1], data: [[expect.stringMatching(/^1\.30[67]\d*:0:red$/)]] },
  ]);
  expect(classes).toEqual({ y: [[{ score: expect.closeTo(1.307, 3) as number, index: 0, label: 'red' }]] });
  expect(await answer('colours', path('warm.png'), '--top', '0', '--pixels', 'unit')).toMatchObject({
    outputs: [
      { name: 'y', shape: [1, 3], data: [[200, 100, 50].map((value) => expect.closeTo(value / 255, 5) as number)] },
    ],
  });
});

test.each<[string[], string]>([
  [
    ['negative'],
    'x: sends the picture as BGR from 0 to 255, HWC [8, 12, 3] (--pixels bgr; other formats: rgb, unit, signed, imagenet)\n',
  ],
  [
    ['colours', '--pixels', 'unit'],
    'x: sends the picture as RGB from 0 to 1, NCHW [1, 3, 4, 4] (--pixels unit; other formats: bgr, rgb, signed, imagenet)\n',
  ],
  [['adds', 'x=[1]'], ''],
])('prints the format in which a picture is sent: %j', async ([model = '', ...more], line) => {
  expect(await infer(model, ...(line === '' ? [] : [path('warm.png')]), ...more)).toMatchObject({
    code: 0,
    stderr: line,
  });
});

test('returns the format in which a picture was sent as JSON, and prints it before a rejected request', async () => {
  expect(await answer('colours', path('warm.png'))).toMatchObject({
    pictures: [{ input: 'x', pixels: 'imagenet', layout: 'NCHW', shape: [1, 3, 4, 4] }],
  });
  const { code, stderr } = await infer('colours', path('warm.png'), '--outputs', 'z');
  expect(code).toBe(1);
  expect(stderr).toMatch(/^x: sends the picture as RGB from 0 to 1, less the mean of ImageNet, .*\nerror: --outputs z/);
});

test('sends integers beyond 2^53 exactly', async () => {
  const inputs = ['x=[[9007199254740993]]', 'mask=[[1]]'];
  expect(await answer('words', ...inputs)).toMatchObject({ outputs: [{ data: [['9007199254740993', 1]] }] });
  expect((await infer('words', ...inputs)).stdout).toContain('9007199254740993, 1 (from 1 to 9007199254740993');
});

test('scales a picture for a model with a fixed size, but not for an ensemble with variable sizes', async () => {
  const { width, height } = await sharp(path('warm.png')).metadata();
  expect([width, height]).not.toEqual([6, 4]);
  expect(await answer('small', path('warm.png'))).toMatchObject({ outputs: [{ shape: [4, 6, 3] }] });
  expect(await answer('whole', path('warm.png'))).toMatchObject({ outputs: [{ shape: [height, width, 3] }] });
});

test('sends the next command to the same server', async () => {
  const { stdout } = await infer('adds', '--version', '1', '--header', 'X-Team: mine');
  const [next = ''] = /npm run infer -- adds .*/.exec(stdout) ?? [];
  expect(next).toBe(
    `npm run infer -- adds x=FILE.npy --url ${server.httpUrl} --header 'X-Team: mine' --version 1 --repo ${repository}`,
  );
});

describe('accepts inputs', () => {
  beforeAll(() => {
    writeFileSync(path('x.json'), '[1, 2]');
    writeFileSync(path('both.json'), '{ "x": [5] }');
    writeFileSync(path('x.npy'), writeNpy(toTensor('x', 'FP32', [3, 4])));
  });

  test.each<[how: string, args: string[], data: unknown]>([
    ['by name, for a version', ['adds', 'x=[1, 2]', '--version', '1'], [11, 12]],
    ['by name', ['adds', 'x=[1, 2]'], [21, 22]],
    ['without a name', ['adds', '[1, 2]'], [21, 22]],
    ['from a JSON file', ['adds', path('x.json')], [21, 22]],
    ['with their names from a JSON file', ['adds', path('both.json')], [25]],
    ['from a NumPy file', ['adds', `x=${path('x.npy')}`], [23, 24]],
    ['without a batch axis, as a batch of one', ['words', 'x=[1, 2]', 'mask=[1, 1]'], [[3, 2]]],
    ['as one JSON object', ['words', '{"x": [[1, 2]], "mask": [[1, 1]]}'], [[3, 2]]],
    [
      'as texts, for the tokenizer of the model',
      ['words', 'one two', 'three'],
      [
        [3, 2],
        [3, 1],
      ],
    ],
  ])('%s', async (_, args, data) => {
    expect(await answer(...args)).toMatchObject({ outputs: [{ data }] });
  });
});

test('writes JSON files and files that NumPy can read, and reads files that NumPy wrote', async () => {
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  await exec(python, ['-c', `import numpy; numpy.save(${JSON.stringify(path('in.npy'))}, numpy.float32([1, 2]))`]);
  const { code } = await infer('adds', path('in.npy'), '-o', path('out.npy'));
  expect(code).toBe(0);
  expect(await infer('adds', path('in.npy'), '-o', path('out.json'))).toMatchObject({ code: 0 });
  expect(JSON.parse(readFileSync(path('out.json'), 'utf8'))).toMatchObject({ outputs: [{ data: [21, 22] }] });
  expect(readNpy('out', readFileSync(path('out.npy')))).toMatchObject({ shape: [2], data: Float32Array.of(21, 22) });
  const { stdout } = await exec(python, ['-c', `import numpy; print(numpy.load(${JSON.stringify(path('out.npy'))}))`]);
  expect(stdout.trim()).toBe('[21. 22.]');
});

describe('rejected requests', () => {
  const REFUSED: [string, string[], number, RegExp][] = [
    ['a file that nothing is written to', ['adds', '-o', 'x.exe'], 2, /--out x\.exe: .*\.png \.jpg/],
    ['a header that is none', ['adds', '--header', 'x'], 2, /--header "x": must be "NAME: VALUE"/],
    ['a model that is not there', ['add'], 1, /unknown model: 'add' is not found\n/],
    ['a version that is not there', ['adds', '--version', '9'], 1, /unknown model: 'adds' version 9 is not found\n/],
    ['a model that is not served', ['broken'], 1, /'broken' has no available versions\n/],
    ['an input of another name', ['adds', 'xs=[1]'], 1, /the model has no input xs; allowed: x\n/],
    ['JSON that is broken', ['adds', 'x=[1,'], 1, /error: x=: .*JSON/],
    ['an empty text', ['words', 'one', ''], 1, /error: the input is empty\n {2}-> give a text or a file; /],
    ['an empty text by name', ['words', 'x='], 1, /error: x= is empty\n/],
    [
      'a picture that is none',
      ['colours', path('none.jpg')],
      1,
      /cannot read the picture .*none\.jpg: .*\n {2}-> save the picture in one of these formats: \.jpg /,
    ],
    ['an array that is none', ['adds', path('none.npy')], 1, /none\.npy is not a \.npy file\n {2}-> save/],
    ['a folder of a known name', ['adds', path('folder.npy')], 1, /folder\.npy is a folder\n {2}-> name the files/],
    ['a folder', ['adds', scratch.directory], 1, /is a folder\n {2}-> name the files in this folder/],
    [
      'a text for numbers',
      ['negative', 'text'],
      1,
      /negative takes no text\n {2}-> its inputs are x UINT8 \[-1, -1, 3\]/,
    ],
    ['a picture for numbers', ['adds', path('warm.png')], 1, /adds takes no picture/],
    [
      'fractions for whole numbers',
      ['negative', `x=${path('f.npy')}`],
      1,
      /f\.npy is float32, but x is UINT8: FP32 cannot be converted to UINT8\n {2}-> save it with \.astype\(numpy\.uint8\)/,
    ],
    [
      'a number that becomes infinite',
      ['adds', path('1e39.npy')],
      1,
      /1e39\.npy is float64, but x is FP32: 1e\+39 .*\n {2}-> save the file with values that FP32 can represent/,
    ],
    ['JSON that is cut short', ['adds', '{"x": ['], 1, /the input: .*\n {2}-> write valid JSON: /],
    ['an output that is not there', ['adds', 'x=[1]', '--outputs', 'z'], 1, /adds has no such output; allowed: y\n/],
    [
      'a picture of what is none',
      ['adds', 'x=[1]', '-o', path('x.png')],
      1,
      /adds has no picture among its outputs: y/,
    ],
  ];

  beforeAll(() => {
    writeFileSync(path('f.npy'), writeNpy(toTensor('x', 'FP32', [1])));
    writeFileSync(path('1e39.npy'), writeNpy(toTensor('x', 'FP64', [1e39])));
    for (const name of ['none.jpg', 'none.npy']) writeFileSync(path(name), 'of another kind');
    mkdirSync(path('folder.npy'));
  });

  test.concurrent.each(REFUSED)('%s', async (_, args, code, message) => {
    const finished = await infer(...args);
    expect(finished).toMatchObject({ code, stdout: '' });
    expect(finished.stderr).toMatch(message);
    expect(finished.stderr).not.toContain('please report');
  });

  test('reports a port of another program', async () => {
    const { code, stderr } = await runCommandLine('infer', [
      'adds',
      '--url',
      server.metricsUrl.replace('/metrics', ''),
    ]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /\n {2}-> this address does not speak Triton's HTTP; start the local server with npm run local/,
    );
  });

  test('reports an unreachable server', async () => {
    const { code, stderr } = await runCommandLine('infer', ['adds', '--url', 'http://127.0.0.1:9']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/127\.0\.0\.1:9 cannot be reached: .*\n {2}-> start the local server with npm run local/);
  });
});
