import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import ts from 'typescript';
import { Progress } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/install/cache';
import { ensurePython, unpackPackage } from '../../src/install/python';
import type { TritonProcess } from '../../src/local/triton-server';
import { fences } from '../support/markdown';
import { addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** The TypeScript examples of docs/client.md, in order. */
const EXAMPLES = [...readFileSync(join(paths.root, 'docs', 'client.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(
  ([, code]) => code ?? '',
);
const ENTRY = join(paths.source, 'triton', 'index.ts');

/** A model with the inputs and outputs of bert, but without meaningful values. */
const BERT = `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [request.inputs()[0].as_numpy().shape for request in requests]
        tensor = pb_utils.Tensor
        return [
            pb_utils.InferenceResponse(
                [
                    tensor("output__0", np.zeros((n, length, 384), np.float32)),
                    tensor("output__1", np.zeros((n, 384), np.float32)),
                ]
            )
            for n, length in rows
        ]
`;

const COUNTER = `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(int(request.inputs()[0].as_numpy()[0])):
                number = pb_utils.Tensor("number", np.array([i], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse([number]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
`;

/** The model of the tutorial, without PyTorch. */
const CELSIUS = `import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        values = [(request.inputs()[0].as_numpy() - 32) * 5 / 9 for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("output__0", celsius)]) for celsius in values]
`;

const repository = writeRepository(join(scratch.directory, 'repository'), {
  ...addingModel('adds', { 1: 10 }),
  'bert/config.pbtxt': [
    'backend: "python"',
    'max_batch_size: 8',
    ...['input__0', 'input__1'].map((name) => `input { name: "${name}" data_type: TYPE_INT64 dims: -1 }`),
    'output { name: "output__0" data_type: TYPE_FP32 dims: [-1, 384] }',
    'output { name: "output__1" data_type: TYPE_FP32 dims: 384 }',
    'instance_group { count: 1 kind: KIND_CPU }',
  ].join('\n'),
  'bert/1/model.py': BERT,
  'celsius/config.pbtxt': [
    'backend: "python"',
    'max_batch_size: 8',
    'input { name: "input__0" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "output__0" data_type: TYPE_FP32 dims: 1 }',
    'instance_group { count: 1 kind: KIND_CPU }',
  ].join('\n'),
  'celsius/1/model.py': CELSIUS,
  'counter/config.pbtxt': [
    'backend: "python"',
    'model_transaction_policy { decoupled: true }',
    'input { name: "count" data_type: TYPE_INT32 dims: 1 }',
    'output { name: "number" data_type: TYPE_INT32 dims: 1 }',
    'instance_group { count: 1 kind: KIND_CPU }',
  ].join('\n'),
  'counter/1/model.py': COUNTER,
});

let server: TritonProcess;
beforeAll(async () => {
  server = await testTriton(scratch, repository);
});

/** Output of each example. The example with TLS is only type-checked, because there is no such server. */
const PRINTED = [
  'output__0 FP32 [ 1, 3, 384 ]\noutput__1 FP32 [ 1, 384 ]\n',
  '384\n',
  '1 384\n',
  '0\n1\n2\n',
  "HTTP 404 Request for unknown model: 'nothing' is not found\n",
  undefined,
];

test('every example of docs/client.md has an expected output', () => {
  expect(EXAMPLES).toHaveLength(PRINTED.length);
});

test.each(EXAMPLES.map((code, i) => ({ example: i + 1, code, printed: PRINTED[i] })).filter(({ printed }) => printed))(
  'example $example prints the expected output',
  ({ example, code, printed }) => {
    const file = join(scratch.directory, `example-${example}.mjs`);
    const here = code
      .replace(/(http:\/\/)?127\.0\.0\.1:8000/, server.httpUrl)
      .replace('127.0.0.1:8001', server.grpcAddress)
      .replace("'@triton-serving/client'", JSON.stringify(ENTRY));
    const { outputFiles } = buildSync({
      stdin: { contents: here, loader: 'ts', resolveDir: paths.root },
      bundle: true,
      platform: 'node',
      format: 'esm',
      write: false,
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    writeFileSync(file, outputFiles[0]?.contents ?? '');
    expect(execFileSync(process.execPath, [file], { encoding: 'utf8', timeout: 60_000 })).toBe(printed);
  },
);

test('every example passes the type check', () => {
  const files = EXAMPLES.map((code, i) => {
    // The files are never written. Their paths are in the root folder, so that the compiler finds types of packages.
    const file = join(paths.root, `example-${i + 1}.ts`);
    return [file, code.replace("'@triton-serving/client'", "'./src/triton'")] as const;
  });
  const sources = new Map(files);
  const { config } = ts.readConfigFile(join(paths.root, 'tsconfig.json'), ts.sys.readFile.bind(ts.sys)) as {
    config: object;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, paths.root);
  const host = ts.createCompilerHost(options);
  const source = host.getSourceFile.bind(host);
  host.getSourceFile = (name, version) => {
    const text = sources.get(name);
    return text === undefined ? source(name, version) : ts.createSourceFile(name, text, version);
  };
  const program = ts.createProgram([...sources.keys()], options, host);
  const problems = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    return `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
  expect(problems).toEqual([]);
});

const PYTHON_PAGE = readFileSync(join(paths.root, 'docs', 'guides', 'python-client.md'), 'utf8');
/** The programs of the page, and what they print. */
const PROGRAMS = fences(PYTHON_PAGE).filter(({ language }) => language === 'python');
const PYTHON_PRINTED = ['[[  0.]\n [100.]]\n', '[[  0.]\n [100.]]\n', '[0]\n[1]\n[2]\n'];

test('the Python programs of the guide print the expected output with tritonclient from PyPI', async () => {
  const requirement = /pip install "(.*?)"/.exec(PYTHON_PAGE)?.[1] ?? '';
  const { python, version } = await new Progress(process.stderr).run('Python', (step) => ensurePython(step));
  const packages = await cached(`${requirement.replace(/\W+/g, '-')}-python${version}`, (target) =>
    unpackPackage(requirement, target, python, { dependencies: true }),
  );
  const printed: string[] = [];
  for (const { text } of PROGRAMS) {
    const here = text
      .replace('127.0.0.1:8000', server.httpUrl.replace('http://', ''))
      .replace('127.0.0.1:8001', server.grpcAddress);
    const env = { ...process.env, PYTHONPATH: packages };
    printed.push((await exec(python, ['-c', here], { env, timeoutMs: 60_000 })).stdout);
  }
  expect(printed).toEqual(PYTHON_PRINTED);
}, 300_000);
