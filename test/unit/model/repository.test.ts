import fs from 'node:fs';
import path from 'node:path';
import { folder, modelYaml, read, removeFolders, torchScript, zip } from '../../support/model-files';

afterEach(removeFolders);

const onnx = modelYaml({ platform: 'onnxruntime_onnx' });
/** An ONNX file, x [1, 2] -> y [1, 2]. */
const SINGLE = fs.readFileSync(path.join(__dirname, '../../data/onnx/single.onnx'));
const SAVE = '\n    -> save it with torch.jit.trace(model, inputs).save(path) or torch.jit.script(model).save(path)';

describe('readRepository', () => {
  it('reads a model with its versions and files', async () => {
    const root = folder({
      'm/model.yaml': modelYaml(),
      'm/trace.py': 'import torch',
      'm/README.md': 'about',
      'm/10/model.pt': torchScript(),
      'm/2/model.pt': torchScript(),
      'm/2/model.pt.trace.json': '{}',
      'm/2/.DS_Store': 'x',
      'm/2/model.pt.tmp': 'x',
      'm/2/model.pt.tmp-1234': 'x',
      'm/2/model.tmp.bin': '123',
      'm/2/prompt.tmpl': '1234',
      'm/2/__pycache__/a.pyc': 'x',
      'm/2/sub/weights.bin': '12345',
      'm/notes/a.txt': 'x',
      'README.md': 'not a model',
      '.git/HEAD': 'x',
      'docs/a.md': 'not a model',
    });
    const { models, texts, added } = await read(root);
    expect(texts).toEqual([]);
    expect(added).toEqual([]);
    expect(models).toHaveLength(1);
    const bytes = torchScript().length;
    const file = (key: string, size: number): object => ({ path: path.join(root, 'm', key), key, bytes: size });
    expect(models[0]).toMatchObject({
      name: 'm',
      directory: path.join(root, 'm'),
      platform: 'pytorch_libtorch',
      served: [10],
      extraFiles: [],
    });
    expect(models[0]?.config).toMatchObject({ name: 'm', max_batch_size: 8 });
    expect(models[0]?.configText).toMatch(
      /^name: "m"\nplatform: "pytorch_libtorch"\nversion_policy {\n {2}specific {\n {4}versions: 10\n {2}}\n}\nmax_batch_size: 8\n/,
    );
    expect(models[0]?.versions).toEqual([
      {
        version: 2,
        files: [
          file('2/model.pt', bytes),
          file('2/model.pt.trace.json', 2),
          file('2/model.tmp.bin', 3),
          file('2/prompt.tmpl', 4),
          file('2/sub/weights.bin', 5),
        ],
      },
      { version: 10, files: [file('10/model.pt', bytes)] },
    ]);
  });

  it('publishes the files to which the configuration refers', async () => {
    const root = folder({
      'm/model.yaml': JSON.stringify({
        backend: 'python',
        input: [{ name: 'a', data_type: 'TYPE_FP32', dims: [1] }],
        output: [{ name: 'b', data_type: 'TYPE_FP32', dims: [2], label_filename: 'labels.txt' }],
        parameters: {
          EXECUTION_ENV_PATH: { string_value: '$$TRITON_MODEL_DIRECTORY/env.tar.gz' },
          vocabulary: { string_value: '$$TRITON_MODEL_DIRECTORY/words' },
          other: { string_value: '/opt/elsewhere' },
        },
        model_warmup: [
          { batch_size: 1, inputs: { a: { data_type: 'TYPE_FP32', dims: [1], input_data_file: 'a.bin' } } },
        ],
        sequence_batching: { state: [{ initial_state: [{ name: 'zero', data_file: 'zero' }] }] },
        model_operations: { op_library_filename: ['ops.so', '/usr/lib/libother.so', 'absent.so'] },
      }),
      'm/1/model.py': 'x',
      'm/labels.txt': 'cat',
      'm/env.tar.gz': 'x',
      'm/words/a.txt': 'x',
      'm/words/b.txt': 'x',
      'm/warmup/a.bin': 'xxxx',
      'm/initial_state/zero': 'x',
      'm/ops.so': 'x',
      'm/libtriton_python.so': 'x',
      'm/tokenizer.json': '{}',
    });
    const { models, texts } = await read(root);
    expect(texts).toEqual([]);
    expect(models[0]?.extraFiles.map(({ key }) => key)).toEqual([
      'env.tar.gz',
      'initial_state/zero',
      'labels.txt',
      'libtriton_python.so',
      'ops.so',
      'warmup/a.bin',
      'words/a.txt',
      'words/b.txt',
    ]);
  });

  it('publishes a repository of a user unchanged', async () => {
    const root = folder({
      'm/config.pbtxt': '# mine\nbackend: "python" max_batch_size: 4\ninput { name: "logits" data_type: 11 dims: 3 }',
      'm/1/model.py': 'x',
      'm/utils/helpers.py': 'x',
      'm/vocab.txt': 'x',
      'm/.git': 'x',
    });
    const { models, texts } = await read(root);
    expect(texts).toEqual([]);
    expect(models[0]).toMatchObject({ name: 'm', platform: 'python' });
    expect(models[0]?.extraFiles.map(({ key }) => key)).toEqual(['utils/helpers.py', 'vocab.txt']);
    expect(models[0]?.configText).toBe(
      'name: "m"\nversion_policy {\n  specific {\n    versions: 1\n  }\n}\nmax_batch_size: 4\ninput {\n  name: "logits"\n  data_type: TYPE_FP32\n  dims: 3\n}\nbackend: "python"\n',
    );
  });

  it('accepts names of a config.pbtxt that libtorch matches by order', async () => {
    const io =
      'input { name: "ids" data_type: TYPE_INT64 dims: -1 } output { name: "logits" data_type: TYPE_FP32 dims: 5 }';
    const root = folder({ 'm/config.pbtxt': `platform: "pytorch_libtorch" ${io}`, 'm/1/model.pt': torchScript() });
    expect((await read(root)).texts).toEqual([]);
  });

  it('completes a configuration without platform by its files, as Triton does', async () => {
    const root = folder({ 'm/config.pbtxt': '', 'm/1/model.onnx': SINGLE, 'n/config.pbtxt': '', 'n/1/weights': 'x' });
    const { models, texts } = await read(root);
    expect(models.map(({ name, platform }) => [name, platform])).toEqual([
      ['m', 'onnxruntime_onnx'],
      ['n', ''],
    ]);
    expect(texts).toEqual([expect.stringMatching(/^n\/config\.pbtxt: platform: is missing; allowed: /)]);
  });

  it('suggests a trace for a missing file', async () => {
    const output = [{ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], label_filename: 'labels.txt' }];
    const root = folder({ 'm/model.yaml': modelYaml({ output }), 'm/trace.py': '', 'm/1/model.pt': torchScript() });
    expect((await read(root)).texts).toEqual([
      'm/model.yaml: output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> npm run trace -- --models m --repo ., or put it at m/labels.txt',
    ]);
  });

  it('reads only the configurations on request', async () => {
    const root = folder({ 'm/model.yaml': modelYaml({ version_policy: { specific: { versions: [1] } } }) });
    const { models, texts } = await read(root, { artifacts: false });
    expect(texts).toEqual([]);
    expect(models[0]).toMatchObject({ versions: [], extraFiles: [] });
  });
});

describe('versions and artifacts', () => {
  const cases: [title: string, files: Record<string, string | Buffer>, ...problems: string[]][] = [
    ['no version folder', {}, 'm: has no version folder\n    -> put model.pt at m/1/model.pt'],
    [
      'no version folder of a model that we trace',
      { 'trace.py': '' },
      'm: has no version folder\n    -> npm run trace -- --models m --repo .',
    ],
    [
      'an artifact of another name',
      { '1/ranker.pt': torchScript() },
      'm/1/model.pt: is missing\n    -> rename 1/ranker.pt to model.pt, or set default_model_filename: ranker.pt',
    ],
    [
      'artifacts of two other names, or elsewhere',
      { '1/a.pt': torchScript(), '1/b.pt': torchScript(), '1/sub/c.pt': torchScript(), '1/d.bin': 'x' },
      'm/1/model.pt: is missing\n    -> put it at m/1/model.pt',
    ],
    ['no artifact', { '1/': '' }, 'm/1/model.pt: is missing\n    -> put it at m/1/model.pt'],
    [
      'no artifact of a model that we trace',
      { '1/': '', 'trace.py': '' },
      'm/1/model.pt: is missing\n    -> npm run trace -- --models m --repo .',
    ],
    [
      'an artifact of another version',
      { '1/model.pt': torchScript(), '2/model.onnx': 'x' },
      'm/2/model.pt: is missing\n    -> put it at m/2/model.pt',
    ],
    ['an empty artifact', { '1/model.pt': '' }, 'm/1/model.pt: is empty\n    -> put it at m/1/model.pt'],
    ['a folder as artifact', { '1/model.pt/a': 'x' }, 'm/1/model.pt: must be a file, but is a folder'],
    [
      'a pickle',
      { '1/model.pt': Buffer.from([0x80, 2, 0x8a]) },
      `m/1/model.pt: is a pickle (torch.save of weights or of a Python object), not TorchScript${SAVE}`,
    ],
    [
      'weights alone',
      { '1/model.pt': zip(['model/data.pkl', 'model/data/0', 'model/version']) },
      `m/1/model.pt: is a zip archive without code (torch.save of weights), not TorchScript\n    -> write a trace.py that loads these weights (docs/tracing.md), and run npm run trace`,
    ],
    [
      'anything else',
      { '1/model.pt': 'hello' },
      `m/1/model.pt: is not TorchScript, which is a zip archive and starts with "PK"; the file starts with "hell"${SAVE}`,
    ],
    [
      'an archive cut short',
      { '1/model.pt': torchScript().subarray(0, 100) },
      'm/1/model.pt: is truncated: the zip archive has no end\n    -> copy or trace it again',
    ],
    [
      'a version with a leading zero',
      { '1/model.pt': torchScript(), '02/model.pt': torchScript() },
      'm/02: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 2',
    ],
    [
      'a version with letters',
      { '1/model.pt': torchScript(), '3abc/': '', 'v4/': '' },
      'm/3abc: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 3',
      'm/v4: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 4',
    ],
    [
      'a version of 0 and one below',
      { '1/model.pt': torchScript(), '0/': '', '-1/': '' },
      'm/-1: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 1',
      'm/0: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to a number from 1',
    ],
    [
      'a version beyond all numbers',
      { '1/model.pt': torchScript(), '99999999999999999999/': '' },
      'm/99999999999999999999: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to a number from 1',
    ],
    [
      'a file with the name of a version',
      { '1': 'x', '2/model.pt': torchScript() },
      'm/1: has the name of a version, but is a file; allowed: 1, 2, 3, ...\n    -> put it into a folder of that name',
    ],
  ];
  it.each(cases)('refuses %s', async (_title, files, ...problems) => {
    const inFolder = Object.fromEntries(Object.entries(files).map(([key, content]) => [`m/${key}`, content]));
    const { texts } = await read(folder({ ...inFolder, 'm/model.yaml': modelYaml() }));
    expect(texts.sort()).toEqual(problems);
  });

  it.each<[title: string, yaml: string, files: Record<string, string>, ...problems: string[]]>([
    [
      'a file of another name',
      modelYaml({ platform: 'tensorrt_plan', default_model_filename: 'a.plan' }),
      { '1/a.plan': 'x' },
    ],
    [
      'a file for each GPU generation',
      modelYaml({ platform: 'tensorrt_plan', cc_model_filenames: { '8.0': 'a.plan', '9.0': 'b.plan' } }),
      { '1/a.plan': 'x' },
      'm/1/b.plan: is missing\n    -> put it at m/1/b.plan',
    ],
    [
      'an empty model.py',
      modelYaml({ platform: undefined, backend: 'python' }),
      { '1/model.py': '' },
      'm/1/model.py: is empty\n    -> define class TritonPythonModel with execute(self, requests); see docs/python-models.md',
    ],
    ['an ONNX folder', onnx, { '1/model.onnx/model.onnx': 'x' }],
    [
      'an empty ONNX folder',
      onnx,
      { '1/model.onnx/': '' },
      'm/1/model.onnx: is an empty folder\n    -> put it at m/1/model.onnx',
    ],
    ['a backend of one’s own', modelYaml({ platform: undefined, backend: 'mine' }), { '1/': '' }],
    ['a runtime of one’s own', modelYaml({ runtime: 'model.py' }), { '1/model.py': 'x' }],
  ])('checks the artifacts of %s', async (_title, yaml, files, ...problems) => {
    const inFolder = Object.fromEntries(Object.entries(files).map(([key, content]) => [`m/${key}`, content]));
    expect((await read(folder({ ...inFolder, 'm/model.yaml': yaml }))).texts).toEqual(problems);
  });
});
