import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { inferCommand, type InferCommand } from '../../../src/infer/command';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
const path = (name: string): string => join(scratch.directory, name);

/** A speech recogniser with two letters, which rejects sounds of fewer than 400 samples as ONNX Runtime does. */
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const url = request.url ?? '';
    const answer = (status: number, body: object): unknown =>
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
    if (url.endsWith('/config')) return answer(200, { max_batch_size: 8 });
    if (!url.endsWith('/infer')) {
      return answer(200, {
        name: 'speech',
        versions: ['1'],
        platform: 'onnxruntime_onnx',
        inputs: [{ name: 'input_values', datatype: 'FP32', shape: [-1, -1] }],
        outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, -1, 2] }],
      });
    }
    const shape = /"shape":\[1,(\d+)\]/.exec(Buffer.concat(chunks).toString('latin1'));
    if (Number(shape?.[1]) < 400) return answer(400, { error: 'onnx runtime error 2: Invalid input shape: {9}' });
    const values = Buffer.from(Float32Array.of(0, 1, 1, 0).buffer);
    const logits = { name: 'logits', datatype: 'FP32', shape: [1, 2, 2], parameters: { binary_data_size: 16 } };
    const head = JSON.stringify({ model_name: 'speech', model_version: '1', outputs: [logits] });
    return response
      .writeHead(200, { 'Inference-Header-Content-Length': head.length })
      .end(head + values.toString('latin1'), 'latin1');
  });
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  writeRepository(scratch.directory, { 'speech/1/vocab.json': '{"<pad>": 0, "A": 1}' });
});
afterAll(async () => {
  await scratch.clean();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const command = (options: Partial<InferCommand>): InferCommand => ({
  address: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
  headers: {},
  timeoutMs: 10_000,
  model: 'speech',
  inputs: [],
  version: undefined,
  repository: scratch.directory,
  pixels: undefined,
  outputs: undefined,
  top: undefined,
  out: undefined,
  json: false,
  repeated: '',
  ...options,
});

/** A mono WAV file at 16 kHz with 16-bit samples. */
function sound(samples: number): Buffer {
  const head = Buffer.from('UklGRgAAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA=', 'base64');
  head.writeUInt32LE(2 * samples, 40);
  return Buffer.concat([head, Buffer.alloc(2 * samples)]);
}

test('inferCommand writes the same JSON to --out as --json prints, with the texts', async () => {
  writeRepository(scratch.directory, { 'long.wav': sound(400) });
  const printed: string[] = [];
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((text) => printed.push(String(text)) > 0);
  try {
    expect(await inferCommand(command({ inputs: [path('long.wav')], out: path('answer.json'), json: true }))).toBe(0);
  } finally {
    write.mockRestore();
  }
  expect(JSON.parse(readFileSync(path('answer.json'), 'utf8'))).toMatchObject({ model: 'speech', texts: ['A'] });
  expect(readFileSync(path('answer.json'), 'utf8')).toBe(printed.join(''));
});

describe('inferCommand explains a rejected request', () => {
  test('with a sound that is too short', async () => {
    writeRepository(scratch.directory, { 'short.wav': sound(399) });
    await expect(inferCommand(command({ inputs: [path('short.wav')] }))).rejects.toMatchObject({
      message: expect.stringContaining('Invalid input shape') as string,
      hint: 'the sound has only 399 samples (24.9 ms); send at least 0.1 s',
    });
  });
});
