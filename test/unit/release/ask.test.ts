import { createServer, type ServerResponse } from 'node:http';
import { CLIENT_OPTIONS } from '../../../src/agent/agent';
import type { GoldenRequest } from '../../../src/model/golden';
import { askModel, WrongAnswerError, type Answered, type AskOptions } from '../../../src/release/ask';
import { TritonError, type InferResult } from '../../../src/triton/client';
import { TritonHttpClient } from '../../../src/triton/http';
import type { Tensor } from '../../../src/triton/tensor';
import { listenOnLoopback } from '../../support/loopback';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0)) await step();
});

const CONFIG = {
  max_batch_size: 0,
  input: [{ name: 'x', data_type: 'TYPE_INT8', dims: [1] }],
  output: [{ name: 'y', data_type: 'TYPE_INT8', dims: [1] }],
};
const tensor = (name: string, value: number) =>
  ({ name, datatype: 'INT8', shape: [1], data: Int8Array.of(value) }) as const;
const GOLDEN: GoldenRequest = {
  name: 'a',
  inputs: [tensor('x', 1)],
  outputs: [{ name: 'y', tensor: tensor('y', 1), tolerance: { absolute: 0, relative: 0 } }],
  parameters: { priority: 1 },
};

/** What a server does with a request. */
type Infer = (response: ServerResponse, path: string, body: string) => void;

const answers =
  (value: number): Infer =>
  (response) => {
    const outputs = [{ name: 'y', datatype: 'INT8', shape: [1], parameters: { binary_data_size: 1 } }];
    const json = JSON.stringify({ model_name: 'm', model_version: '1', outputs });
    response.setHeader('Inference-Header-Content-Length', json.length);
    response.end(Buffer.concat([Buffer.from(json), Buffer.from([value])]));
  };
const refuses =
  (error: string): Infer =>
  (response) => {
    response.statusCode = 500;
    response.end(JSON.stringify({ error }));
  };

async function ask(
  infer: Infer,
  golden: readonly GoldenRequest[] = [],
  more: Partial<AskOptions> & { config?: object; served?: number[] } = {},
): Promise<Answered> {
  const { config = CONFIG, served = [1], ...options } = more;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url ?? '';
      if (path.endsWith('/config')) response.end(JSON.stringify(config));
      else infer(response, path, Buffer.concat(chunks).toString('latin1'));
    });
  });
  const { port, stop } = await listenOnLoopback(server);
  const client = new TritonHttpClient(`http://127.0.0.1:${port}`, CLIENT_OPTIONS);
  undo.push(() => client.close(), stop);
  const model = { name: 'm', served };
  return askModel(client, model, golden, { replica: 'pod-0', zerosWereAnswered: false, ...options });
}

test('askModel asks each served version by its number, with the outputs and parameters of the request', async () => {
  const asked: string[] = [];
  const infer: Infer = (response, path, body) => {
    asked.push(path);
    expect(body).toContain('"parameters":{"priority":1,"binary_data_output":true}');
    expect(body).toContain('"outputs":[{"name":"y","parameters":{"binary_data":true}}]');
    answers(1)(response, path, body);
  };
  const golden = [GOLDEN, { ...GOLDEN, name: '3/b', version: 3 }];
  expect(await ask(infer, golden, { served: [2, 3] })).toEqual({ asked: 'golden', text: 'answered 3 golden requests' });
  // The first request of each version is sent again.
  expect(asked).toEqual([2, 2, 3, 3, 3].map((version) => `/v2/models/m/versions/${version}/infer`));
});

test('askModel sends zeros to a version that has no golden requests', async () => {
  const golden = [{ ...GOLDEN, version: 1 }];
  expect(await ask(answers(1), golden, { served: [1, 2] })).toEqual({
    asked: 'zeros',
    text: 'answered 1 golden request; answered zeros',
  });
});

test('askModel counts the golden requests whose expected outputs have no elements', async () => {
  const config = { ...CONFIG, output: [{ name: 'y', data_type: 'TYPE_INT8', dims: [-1] }] };
  const nothing: Infer = (response) => {
    const outputs = [{ name: 'y', datatype: 'INT8', shape: [0], parameters: { binary_data_size: 0 } }];
    const json = JSON.stringify({ model_name: 'm', model_version: '1', outputs });
    response.setHeader('Inference-Header-Content-Length', json.length);
    response.end(json);
  };
  const y = { name: 'y', datatype: 'INT8', shape: [0], data: Int8Array.of() } as const;
  const empty = { ...GOLDEN, outputs: [{ name: 'y', tensor: y, tolerance: { absolute: 0, relative: 0 } }] };
  expect((await ask(nothing, [empty], { config })).text).toBe(
    'answered 1 golden request (1 without values: the expected outputs have no elements)',
  );
});

const silent: Infer = () => undefined;
const lost: Infer = (response) => response.destroy();
const TIMEOUT = { timeoutMs: 200 };

test.each<{ title: string; infer: Infer; options?: Partial<AskOptions>; message: RegExp }>([
  {
    title: 'a wrong answer',
    infer: answers(3),
    message: /^pod-0: m version 1 gives a wrong answer to golden request a: y\[0\] is 3, expected 1/,
  },
  {
    title: 'an error',
    infer: refuses('it is broken'),
    message: /^pod-0: m version 1 did not answer golden request a: it is broken$/,
  },
  { title: 'a lost connection', infer: lost, message: /did not answer golden request a: .* cannot be reached/ },
  {
    title: 'no answer in time',
    infer: silent,
    options: TIMEOUT,
    message: /did not answer golden request a: .* did not answer within 0.2 s/,
  },
])('askModel refuses $title to a golden request', async ({ infer, options, message }) => {
  const failed = ask(infer, [GOLDEN], options);
  await expect(failed).rejects.toThrow(message);
  await expect(failed).rejects.toBeInstanceOf(WrongAnswerError);
});

test.each<{ title: string; infer: Infer; options?: Partial<AskOptions>; message: RegExp }>([
  {
    title: 'whose shape the backend finds in conflict with the configuration',
    infer: refuses("output 'y' has shape [2, 2], expected [2, 1]"),
    message: /expected \[2, 1\]/,
  },
  {
    title: 'whose data type the backend finds in conflict with the configuration',
    infer: refuses("unexpected datatype TYPE_FP64 for inference output 'y'"),
    message: /unexpected datatype/,
  },
  ...[
    "configuration expects datatype TYPE_FP64 for output 'y', model provides TYPE_FP32",
    "output 'y' is a scalar which is not supported.",
    'PyTorch execute failure: output must be of type Tensor, List[str] or Tuple containing one of these two types.',
    'Python model m/1/model.py does not implement `execute` method.',
  ].map((reason) => ({ title: `that no input can change: ${reason}`, infer: refuses(reason), message: /m version 1/ })),
  { title: 'from a process that ended', infer: refuses("Stub process 'm_0' is not healthy."), message: /not healthy/ },
  { title: 'over a lost connection', infer: lost, message: /cannot be reached/ },
  { title: 'that does not come in time', infer: silent, options: TIMEOUT, message: /did not answer within 0.2 s/ },
])('askModel refuses an answer to zeros $title', async ({ infer, options, message }) => {
  const failed = ask(infer, [], options);
  await expect(failed).rejects.toThrow(message);
  await expect(failed).rejects.toBeInstanceOf(WrongAnswerError);
});

test.each([
  ['a golden request', [GOLDEN], 'did not answer golden request a'],
  ['zeros', [], 'failed on the zero request'],
])('askModel refuses an answer to %s that is larger than the agent reads', async (_, golden, reason) => {
  const large: Infer = (response) => response.end(Buffer.alloc(64e6 + 1));
  await expect(ask(large, golden)).rejects.toMatchObject({
    message: expect.stringMatching(`m version 1 ${reason}: the answer is larger than 64`) as string,
    hint: expect.stringContaining('--no-ask') as string,
  });
});

test('askModel attributes an input of the wrong shape to the zero request', async () => {
  const reason =
    "in ensemble 'm', unexpected shape for input 'input__0' for model 'step'. Expected [1,3,256,256], got [1,3,1,1].";
  expect(await ask(refuses(reason))).toMatchObject({
    asked: 'zeros failed',
    text: `the zero request failed: ${reason}`,
  });
});

test('askModel reports an error to zeros, and refuses it where zeros were answered before', async () => {
  expect(await ask(refuses('the id 0 is unknown'))).toEqual({
    asked: 'zeros failed',
    text: 'the zero request failed: the id 0 is unknown',
    hint: 'if zeros are not valid input, add golden requests with valid input: m/golden/CASE.json (for this version only: m/golden/1/CASE.json)',
  });
  // For the previous release, or on another replica.
  await expect(ask(refuses('the id 0 is unknown'), [], { zerosWereAnswered: true })).rejects.toMatchObject({
    message: 'pod-0: m version 1 failed on the zero request: the id 0 is unknown',
    hint: expect.stringMatching(
      /^the model answered zeros before: fix m; if zeros are no longer valid input, add /,
    ) as string,
  });
});

test.each([
  {
    title: 'a model with sequence batching',
    config: { sequence_batching: { direct: {} } },
    reason: 'it uses sequence batching, so a request needs its sequence',
  },
  {
    title: 'a decoupled model',
    config: { model_transaction_policy: { decoupled: true } },
    reason: 'it is decoupled, so a request can have any number of answers',
  },
])('askModel does not ask $title', async ({ config, reason }) => {
  const infer = jest.fn();
  expect(await ask(infer, [GOLDEN], { config: { ...CONFIG, ...config } })).toEqual({
    asked: 'impossible',
    text: `was not asked: ${reason}`,
  });
  expect(infer).not.toHaveBeenCalled();
});

test.each([[[GOLDEN]], [[]]])('askModel ends with the reason of an interrupt', async (golden) => {
  const controller = new AbortController();
  const asking = ask(() => controller.abort(new Error('Ctrl-C')), golden, { signal: controller.signal });
  await expect(asking).rejects.toThrow(/^Ctrl-C$/);
});

/** Asks a model whose program is a function of its rows, each of two numbers. */
async function askRows(
  program: (rows: number[][]) => number[][],
  golden: number[][][],
  { backend = 'pytorch', type = 'FP32' }: { backend?: string; type?: 'FP32' | 'INT32' } = {},
): Promise<Answered> {
  const Type = type === 'FP32' ? Float32Array : Int32Array;
  const toTensor = (name: string, rows: number[][]) =>
    ({ name, datatype: type, shape: [rows.length, 2], data: Type.from(rows.flat()) }) as Tensor;
  const described = [{ data_type: `TYPE_${type}`, dims: [2] }];
  const config = {
    ...{ backend, max_batch_size: 4 },
    input: described.map((one) => ({ ...one, name: 'x' })),
    output: described.map((one) => ({ ...one, name: 'y' })),
  };
  const client = {
    modelConfig: () => Promise.resolve(config),
    infer: (_: string, [input]: readonly Tensor[]) => {
      const { data = [], shape = [] } = input ?? {};
      const rows = Array.from({ length: shape[0] ?? 0 }, (__, row) => [
        Number(data[2 * row]),
        Number(data[2 * row + 1]),
      ]);
      return Promise.resolve({ outputs: [toTensor('y', program(rows))] } as unknown as InferResult);
    },
  };
  const requests = golden.map((rows, number) => {
    const outputs = [
      {
        name: 'y',
        tensor: toTensor(
          'y',
          rows.flatMap((row) => program([row])),
        ),
        tolerance: { absolute: 1e-5, relative: 0 },
      },
    ];
    return { name: `g${number}`, inputs: [toTensor('x', rows)], outputs, parameters: {} };
  });
  return askModel(client, { name: 'm', served: [1] }, requests, { zerosWereAnswered: false });
}

const sum = (rows: number[][]): number => rows.flat().reduce((total, value) => total + value, 0);
const ONE = [[[1, 2]]];
const TWO_ROWS = [
  [
    [1, 2],
    [3, 4],
  ],
];
const TWO_REQUESTS = [[[1, 2]], [[3, 4]]];

test.each<[string, (rows: number[][]) => number[][], number[][][], string]>([
  [
    'a share of the whole batch',
    (rows) => rows.map((row) => row.map((x) => x / sum(rows))),
    ONE,
    'beside the same elements in reverse order: y[0, 0]',
  ],
  [
    'a copy of the first row',
    (rows) => rows.map(() => rows[0] ?? []),
    ONE,
    'beside the same elements in reverse order: y[0, 0] is 2, expected 1',
  ],
  [
    'the sum of rows without a reverse order',
    (rows) => rows.map((row) => row.map(() => sum(rows))),
    [[[1, 1]]],
    'beside the same row: y[0, 0] is 4, expected 2',
  ],
  [
    'the size of the batch',
    (rows) => rows.map((row) => row.map((x) => x * rows.length)),
    TWO_REQUESTS,
    'beside a row of g1: y[0, 0] is 2',
  ],
])('askModel refuses a network that mixes rows: %s', async (_, program, golden, message) => {
  await expect(askRows(program, golden)).rejects.toThrow(
    `m version 1 mixes the rows of a batch: a row of golden request g0 gets another answer ${message}`,
  );
});

test.each<[string, (rows: number[][]) => number[][], number[][][]]>([
  ['computes each row by itself', (rows) => rows, ONE],
  ['does so for several rows', (rows) => rows, TWO_ROWS],
  [
    'rounds with another batch size',
    (rows) => rows.map((row) => row.map((x) => x * (1 + rows.length * 1e-6))),
    TWO_REQUESTS,
  ],
  [
    'refuses another row',
    (rows) => {
      if (rows.some((row) => row[0] !== 1)) throw new TritonError('not 1', { status: 'HTTP 400', answered: true });
      return rows;
    },
    ONE,
  ],
])('askModel accepts a network that %s', async (_, program, golden) => {
  expect(await askRows(program, golden)).toMatchObject({ asked: 'golden' });
});

test('askModel refuses a network that answers its own rows only one by one', async () => {
  const program = (rows: number[][]): number[][] => {
    if (rows.length > 1) throw new TritonError('one row only', { status: 'HTTP 400', answered: true });
    return rows;
  };
  await expect(askRows(program, ONE)).rejects.toThrow(
    'fails on a row of golden request g0 beside the same row: one row only',
  );
});

test.each<[string, 'FP32' | 'INT32', number[][][], string]>([
  ['of zeros', 'FP32', [], 'm version 1 gives another answer when it is asked again: y[0, 0] is'],
  ['of zeros, with integers', 'INT32', [], 'm version 1 gives another answer when it is asked again: y[0, 0] is'],
])(
  'askModel refuses a network that answers a request %s otherwise when it is asked again',
  async (_, type, golden, message) => {
    let calls = 0;
    const program = (rows: number[][]): number[][] => rows.map((row) => row.map((x) => x + ++calls));
    await expect(askRows(program, golden, { type })).rejects.toThrow(message);
    expect(await askRows(program, golden, { type, backend: 'python' })).toMatchObject({
      asked: 'zeros',
      text: expect.stringContaining('answered zeros, but gives another answer when it is asked again') as string,
    });
  },
);

test('askModel refuses a network that answers a golden request otherwise when it is asked again', async () => {
  let calls = 0;
  // The first call makes the expected answer.
  const drifting = (rows: number[][]): number[][] => (++calls > 2 ? rows.map((row) => row.map((x) => x + 1)) : rows);
  await expect(askRows(drifting, ONE)).rejects.toThrow(
    'm version 1 gives another answer when it is asked again to golden request g0: y[0, 0] is 2, expected 1',
  );
});
