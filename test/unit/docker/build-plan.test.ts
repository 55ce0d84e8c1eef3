import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const root = join(scratch.directory, 'clone');
const models = join(root, 'model-repo');
const v1 = join(models, 'wav2vec_general_v1');
const v2 = join(models, 'wav2vec_general_v2');
const bin = join(scratch.directory, 'bin');

const IMAGE = 'nvcr.io/nvidia/tensorrt';

/** A trtexec that notes its arguments, and answers $ANSWER with the shape of the sound. */
const TRTEXEC = `#!/usr/bin/env bash
echo "$*" >>"${scratch.directory}/calls"
for argument; do
  case $argument in
    --saveEngine=*) echo plan >"\${argument#*=}" ;;
    --exportOutput=*) echo '[{ "name" : "logits", "dimensions" : "1x2", "values" : ['"$ANSWER"'] }]' >"\${argument#*=}" ;;
  esac
done
`;

/** An .npy file of version 1.0. */
function npy(shape: readonly number[], values: readonly number[]): Buffer {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')},), }\n`;
  const start = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0]);
  return Buffer.concat([start, Buffer.from(header), Buffer.from(Float32Array.from(values).buffer)]);
}

function program(name: string, text: string): string {
  const path = join(bin, name);
  writeFileSync(path, text);
  chmodSync(path, 0o755);
  return path;
}

beforeAll(() => {
  mkdirSync(bin);
  for (const model of ['wav2vec_general_v1', 'wav2vec_general_v2']) {
    cpSync(join(paths.modelRepository, model), join(models, model), {
      recursive: true,
      filter: (path) => !/\/\d+$|golden/.test(path),
    });
    const yaml = join(models, model, 'model.yaml');
    const text = readFileSync(yaml, 'utf8');
    writeFileSync(yaml, text.replace('versions: [1]', 'versions: [1, 10, 2]'));
  }
  writeFileSync(join(root, 'Dockerfile'), 'ARG TRITON_RELEASE=1.02\n');
  mkdirSync(join(v2, '10'), { recursive: true });
  writeFileSync(join(v2, '10', 'model.onnx'), 'onnx');
  mkdirSync(join(v2, 'golden', '10'), { recursive: true });
  const samples = { short: 400, fits: 2000 };
  Object.values(samples).forEach((length, n) => {
    const file = (tensor: string): string => `traced-${n}.${tensor}.npy`;
    const golden = join(v2, 'golden', '10');
    writeFileSync(join(golden, file('input_values')), npy([1, length], new Array<number>(length).fill(0.5)));
    writeFileSync(join(golden, file('logits')), npy([1, 2], [0.25, -1]));
    const request = {
      inputs: [{ name: 'input_values', file: file('input_values') }],
      outputs: [{ name: 'logits', file: file('logits'), tolerance: { absolute: 1e-3, relative: 0 } }],
    };
    writeFileSync(join(golden, `traced-${n}.json`), JSON.stringify(request));
  });
  program('nvidia-smi', '#!/bin/sh\n');
});

beforeEach(() => rmSync(join(scratch.directory, 'calls'), { force: true }));

function build(env: NodeJS.ProcessEnv): { code: number | null; said: string; calls: string[] } {
  const { status, stdout, stderr } = spawnSync(join(v1, 'build-plan.sh'), {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}`, ...env },
  });
  const calls = join(scratch.directory, 'calls');
  return {
    code: status,
    said: stdout + stderr,
    calls: existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [],
  };
}

test('a plan that answers differently from the ONNX model is not written', () => {
  const built = build({ TRTEXEC: program('trtexec', TRTEXEC), ANSWER: '0.25, -1.1' });
  expect(built).toMatchObject({
    code: 1,
    said: expect.stringContaining("the plan's answers are not those of") as string,
  });
  expect(existsSync(join(v1, '10'))).toBe(false);
});

test('the trtexec of the release container is used, not the one on PATH', () => {
  const docker = `#!/usr/bin/env bash
while [[ $1 != nvcr.io/* ]]; do
  case $1 in *:/plan) work=\${1%:/plan} ;; esac
  shift
done
echo "$1 $2" >>"${scratch.directory}/calls"
shift 2
exec "${join(bin, 'trtexec')}" "\${@//\\/plan/$work}"
`;
  program('docker', docker);
  const built = build({ ANSWER: '0.2501, -1' });
  expect(built).toMatchObject({ code: 0 });
  expect(built.calls.filter((call) => call.startsWith('nvcr.io'))).toEqual([
    `${IMAGE}:1.02-py3 trtexec`,
    `${IMAGE}:1.02-py3 trtexec`,
  ]);
  // The sound of 400 samples is shorter than the plan takes.
  expect(
    built.calls.filter((call) => call.includes('--shapes=')).map((call) => /--shapes=(\S+)/.exec(call)?.[1]),
  ).toEqual(['input_values:1x2000']);
  expect(readFileSync(join(v1, '10', 'model.plan'), 'utf8')).toBe('plan\n');
  expect(JSON.parse(readFileSync(join(v1, '10', 'model.plan.json'), 'utf8'))).toMatchObject({
    onnx: 'wav2vec_general_v2/10/model.onnx',
    by: 'tensorrt:1.02-py3',
    compared: 1,
  });
});

test('an existing plan is not replaced', () => {
  expect(build({})).toMatchObject({
    code: 1,
    said: expect.stringContaining('10/model.plan is there already') as string,
  });
});
