import { execFileSync } from 'node:child_process';
import fs, { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { configText, readRepository, stepModels, type Repository, type Selection } from '../../../scripts/lib/model';
import { folder, modelYaml, removeFolders, texts, torchScript, zip } from './helpers';

afterEach(removeFolders);

const read = async (root: string, selection?: Selection): Promise<Repository & { texts: string[] }> => {
  const repository = await readRepository(root, selection);
  return { ...repository, texts: texts(repository.problems, root) };
};

const onnx = modelYaml({ platform: 'onnxruntime_onnx' });
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
      'm/2/model.pt.tmp-1234': 'x',
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
      /^name: "m"\nplatform: "pytorch_libtorch"\nversion_policy {\n {2}specific {\n {4}versions: \[10\]\n {2}}\n}\nmax_batch_size: 8\n/,
    );
    expect(models[0]?.versions).toEqual([
      {
        version: 2,
        files: [file('2/model.pt', bytes), file('2/model.pt.trace.json', 2), file('2/sub/weights.bin', 5)],
      },
      { version: 10, files: [file('10/model.pt', bytes)] },
    ]);
  });

  it('publishes what the configuration refers to', async () => {
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

  it('says which referred files are missing or lie elsewhere', async () => {
    const root = folder({
      'm/model.yaml': modelYaml({
        output: [{ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], label_filename: 'labels.txt' }],
        parameters: { a: { string_value: '$$TRITON_MODEL_DIRECTORY/../../secret' } },
      }),
      'm/1/model.pt': torchScript(),
    });
    expect((await read(root)).texts).toEqual([
      'm/model.yaml: output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> put it at m/labels.txt',
      'm/model.yaml: parameters.a.string_value: leaves the model folder, got "../../secret"\n    -> copy the file into it',
    ]);
  });

  it('publishes a repository of the user’s own as it is', async () => {
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
      'name: "m"\nbackend: "python"\nversion_policy {\n  specific {\n    versions: [1]\n  }\n}\nmax_batch_size: 4\ninput {\n  name: "logits"\n  data_type: TYPE_FP32\n  dims: [3]\n}\n',
    );
  });

  it('takes names of a config.pbtxt that libtorch takes in their order', async () => {
    const io =
      'input { name: "ids" data_type: TYPE_INT64 dims: -1 } output { name: "logits" data_type: TYPE_FP32 dims: 5 }';
    const root = folder({ 'm/config.pbtxt': `platform: "pytorch_libtorch" ${io}`, 'm/1/model.pt': torchScript() });
    expect((await read(root)).texts).toEqual([]);
  });

  it('completes a configuration without platform by its files, as Triton does', async () => {
    const root = folder({ 'm/config.pbtxt': '', 'm/1/model.onnx': 'x', 'n/config.pbtxt': '', 'n/1/weights': 'x' });
    const { models, texts } = await read(root);
    expect(models.map(({ name, platform }) => [name, platform])).toEqual([
      ['m', 'onnxruntime_onnx'],
      ['n', ''],
    ]);
    expect(texts).toEqual([expect.stringMatching(/^n\/config\.pbtxt: platform: is missing; allowed: /)]);
  });

  it('wants model.yaml and config.pbtxt to say the same', async () => {
    const root = folder({ 'm/model.yaml': onnx, 'm/1/model.onnx': 'x' });
    const { models } = await read(root);
    writeFileSync(path.join(root, 'm/config.pbtxt'), `# the same\n${models[0]?.configText}`);
    expect((await read(root)).texts).toEqual([]);
    writeFileSync(path.join(root, 'm/config.pbtxt'), configText(models[0]?.config ?? { name: 'm' }));
    expect((await read(root)).texts).toEqual([]);
    fs.appendFileSync(path.join(root, 'm/config.pbtxt'), 'backend: "onnxruntime"');
    expect((await read(root)).texts).toEqual([
      'm/config.pbtxt: says something else than the model.yaml beside it\n    -> remove it: it is made from model.yaml when the model is published',
    ]);
  });

  it('says that a trace may make the file that is missing', async () => {
    const output = [{ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], label_filename: 'labels.txt' }];
    const root = folder({ 'm/model.yaml': modelYaml({ output }), 'm/trace.py': '', 'm/1/model.pt': torchScript() });
    expect((await read(root)).texts).toEqual([
      'm/model.yaml: output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> npm run trace -- --models m, or put it at m/labels.txt',
    ]);
  });

  it('looks at configurations alone where it is asked to', async () => {
    const root = folder({ 'm/model.yaml': modelYaml({ version_policy: { specific: { versions: [1] } } }) });
    const { models, texts } = await read(root, { artifacts: false });
    expect(texts).toEqual([]);
    expect(models[0]).toMatchObject({ versions: [], extraFiles: [] });
  });
});

describe('versions and artifacts', () => {
  const cases: [title: string, files: Record<string, string | Buffer>, problems: string[]][] = [
    ['no version folder', {}, ['m: has no version folder\n    -> put it at m/1/']],
    [
      'no version folder of a model that we trace',
      { 'trace.py': '' },
      ['m: has no version folder\n    -> npm run trace -- --models m'],
    ],
    ['no artifact', { '1/': '' }, ['m/1/model.pt: is missing\n    -> put it at m/1/model.pt']],
    [
      'no artifact of a model that we trace',
      { '1/': '', 'trace.py': '' },
      ['m/1/model.pt: is missing\n    -> npm run trace -- --models m'],
    ],
    [
      'no artifact of a model that is built',
      { '1/': '', 'build-plan.sh': '' },
      ['m/1/model.pt: is missing\n    -> run m/build-plan.sh on a machine with the GPU that is to serve it'],
    ],
    [
      'an artifact of another version',
      { '1/model.pt': torchScript(), '2/model.onnx': 'x' },
      ['m/2/model.pt: is missing\n    -> put it at m/2/model.pt'],
    ],
    ['an empty artifact', { '1/model.pt': '' }, ['m/1/model.pt: is empty\n    -> put it at m/1/model.pt']],
    ['a folder as artifact', { '1/model.pt/a': 'x' }, ['m/1/model.pt: is a folder; a file is needed']],
    [
      'a pickle',
      { '1/model.pt': Buffer.from([0x80, 2, 0x8a]) },
      [`m/1/model.pt: is a pickle, not TorchScript: torch.save of weights or of a Python object${SAVE}`],
    ],
    [
      'weights alone',
      { '1/model.pt': zip(['model/data.pkl', 'model/data/0', 'model/version']) },
      [`m/1/model.pt: is a zip archive without code: torch.save of weights, not TorchScript${SAVE}`],
    ],
    [
      'anything else',
      { '1/model.pt': 'hello' },
      [`m/1/model.pt: is not TorchScript: a zip archive begins with "PK", this with "hell"${SAVE}`],
    ],
    [
      'an archive cut short',
      { '1/model.pt': torchScript().subarray(0, 100) },
      ['m/1/model.pt: is cut short: a zip archive that has no end\n    -> copy or trace it again'],
    ],
    [
      'an archive that lost its middle',
      { '1/model.pt': Buffer.concat([torchScript().subarray(0, 30), torchScript().subarray(150)]) },
      ['m/1/model.pt: is cut short: a zip archive that has no end\n    -> copy or trace it again'],
    ],
    [
      'a version with a leading zero',
      { '1/model.pt': torchScript(), '02/model.pt': torchScript() },
      ['m/02: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 2'],
    ],
    [
      'a version with letters',
      { '1/model.pt': torchScript(), '3abc/': '', 'v4/': '' },
      [
        'm/3abc: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 3',
        'm/v4: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 4',
      ],
    ],
    [
      'a version of 0 and one below',
      { '1/model.pt': torchScript(), '0/': '', '-1/': '' },
      [
        'm/-1: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to 1',
        'm/0: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to a number from 1 on',
      ],
    ],
    [
      'a version beyond all numbers',
      { '1/model.pt': torchScript(), '99999999999999999999/': '' },
      [
        'm/99999999999999999999: is not a version that Triton serves; allowed: 1, 2, 3, ...\n    -> rename it to a number from 1 on',
      ],
    ],
    [
      'a file with the name of a version',
      { '1': 'x', '2/model.pt': torchScript() },
      [
        'm/1: has the name of a version, but is a file; allowed: 1, 2, 3, ...\n    -> put it into a folder of that name',
      ],
    ],
  ];
  it.each(cases)('refuses %s', async (_title, files, problems) => {
    const inFolder = Object.fromEntries(Object.entries(files).map(([key, content]) => [`m/${key}`, content]));
    const { texts } = await read(folder({ ...inFolder, 'm/model.yaml': modelYaml() }));
    expect(texts.sort()).toEqual(problems);
  });

  it('wants the versions that the policy names', async () => {
    const yaml = modelYaml({ version_policy: { specific: { versions: [1, 3] } } });
    const root = folder({ 'm/model.yaml': yaml, 'm/1/model.pt': torchScript(), 'm/2/model.pt': torchScript() });
    expect((await read(root)).texts).toEqual([
      'm/model.yaml: version_policy.specific.versions[1]: has no version folder, got 3; allowed: 1, 2',
    ]);
  });

  it.each<[title: string, yaml: string, files: Record<string, string>, problems: string[]]>([
    [
      'a file of another name',
      modelYaml({ platform: 'tensorrt_plan', default_model_filename: 'a.plan' }),
      { '1/a.plan': 'x' },
      [],
    ],
    [
      'a file for each GPU generation',
      modelYaml({ platform: 'tensorrt_plan', cc_model_filenames: { '8.0': 'a.plan', '9.0': 'b.plan' } }),
      { '1/a.plan': 'x' },
      ['m/1/b.plan: is missing\n    -> put it at m/1/b.plan'],
    ],
    ['an ONNX folder', onnx, { '1/model.onnx/model.onnx': 'x' }, []],
    [
      'an empty ONNX folder',
      onnx,
      { '1/model.onnx/': '' },
      ['m/1/model.onnx: is an empty folder\n    -> put it at m/1/model.onnx'],
    ],
    [
      'a SavedModel',
      modelYaml({ platform: 'tensorflow_savedmodel' }),
      { '1/model.savedmodel/saved_model.pb': 'x' },
      [],
    ],
    [
      'a SavedModel that is a file',
      modelYaml({ platform: 'tensorflow_savedmodel' }),
      { '1/model.savedmodel': 'x' },
      ['m/1/model.savedmodel: is a file; a folder is needed'],
    ],
    ['a backend of one’s own', modelYaml({ platform: undefined, backend: 'mine' }), { '1/': '' }, []],
    ['a runtime of one’s own', modelYaml({ runtime: 'model.py' }), { '1/model.py': 'x' }, []],
  ])('knows %s', async (_title, yaml, files, problems) => {
    const inFolder = Object.fromEntries(Object.entries(files).map(([key, content]) => [`m/${key}`, content]));
    expect((await read(folder({ ...inFolder, 'm/model.yaml': yaml }))).texts).toEqual(problems);
  });
});

describe('files that cannot be published', () => {
  const sound = { 'm/model.yaml': modelYaml(), 'm/1/model.pt': torchScript() };

  it('follows links inside the model folder and refuses the others', async () => {
    const outside = folder({ 'secret.pt': torchScript() });
    const root = folder(sound);
    mkdirSync(path.join(root, 'm/2'));
    symlinkSync('../1/model.pt', path.join(root, 'm/2/model.pt'));
    expect((await read(root)).texts).toEqual([]);
    symlinkSync(path.join(outside, 'secret.pt'), path.join(root, 'm/1/other.pt'));
    symlinkSync('nowhere', path.join(root, 'm/1/gone'));
    symlinkSync('self', path.join(root, 'm/1/self'));
    symlinkSync('..', path.join(root, 'm/1/up'));
    symlinkSync('.', path.join(root, 'm/1/here'));
    expect((await read(root)).texts.sort()).toEqual([
      'm/1/gone: cannot be read: there is no such file or folder',
      'm/1/here: is a link to a folder that it lies in\n    -> remove it',
      `m/1/other.pt: is a link that leaves the model folder, to ${outside}/secret.pt\n    -> copy the file here instead`,
      'm/1/self: cannot be read: its links lead in a circle',
      'm/1/up: is a link to a folder that it lies in\n    -> remove it',
    ]);
  });

  it('names a dangling artifact once', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/1/': '' });
    symlinkSync('nowhere', path.join(root, 'm/1/model.pt'));
    expect((await read(root)).texts).toEqual(['m/1/model.pt: cannot be read: there is no such file or folder']);
  });

  it('refuses a model folder that lies elsewhere', async () => {
    const outside = folder(sound);
    const root = folder(sound);
    symlinkSync(path.join(outside, 'm'), path.join(root, 'n'));
    expect((await read(root)).texts).toEqual([
      `n: is a link that leaves the repository, to ${outside}/m\n    -> copy the folder here instead`,
    ]);
  });

  it('refuses what is no regular file, and names that S3 has not', async () => {
    const root = folder({ ...sound, 'm/1/a\\b': 'x', 'm/1/line\nbreak': 'x' });
    execFileSync('mkfifo', [path.join(root, 'm/1/pipe')]);
    expect((await read(root)).texts.sort()).toEqual([
      'm/1/a\\b: has a name that S3 and Triton cannot take\n    -> rename it',
      'm/1/line\nbreak: has a name that S3 and Triton cannot take\n    -> rename it',
      'm/1/pipe: is not a regular file\n    -> remove it',
    ]);
  });

  it('refuses a path longer than S3 takes', async () => {
    const long = `${'a'.repeat(200)}/${'b'.repeat(200)}/${'c'.repeat(200)}/${'d'.repeat(200)}`;
    const { texts } = await read(folder({ ...sound, [`m/1/${long}`]: 'x' }));
    expect(texts).toEqual([`m/1/${long}: has a path of 805 bytes\n    -> S3 takes 700`]);
  });

  it('says what cannot be read', async () => {
    const root = folder(sound);
    fs.chmodSync(path.join(root, 'm/1/model.pt'), 0o600);
    const denied = Object.assign(new Error('EACCES'), { code: 'EACCES' });
    // Tests may run as root, whom no permission stops.
    const access = jest.spyOn(fs, 'accessSync').mockImplementation((file) => {
      if (file === path.join(root, 'm/1/model.pt')) throw denied;
    });
    try {
      expect((await read(root)).texts).toEqual(['m/1/model.pt: cannot be read: permission denied']);
    } finally {
      access.mockRestore();
    }
  });
});

describe('configuration files that cannot be read', () => {
  it.each<[title: string, name: string, content: string | Buffer, problem: string]>([
    ['a folder', 'model.yaml/', '', 'cannot be read: it is a folder'],
    ['bytes', 'model.yaml', Buffer.from([0xff, 0xfe, 0]), 'is not text in UTF-8'],
    [
      'too much',
      'model.yaml',
      ' '.repeat(2 ** 20 + 1),
      'is no configuration: it has 1048577 bytes; allowed: at most 1048576',
    ],
    [
      'an unknown field',
      'config.pbtxt',
      'name: "m"\n\nmax_batchsize: 8\n',
      'line 3: not a ModelConfig in protobuf text format: ModelConfig: unknown field \'max_batchsize\'\n    -> did you mean "max_batch_size"?',
    ],
    [
      'an unknown field of a part',
      'config.pbtxt',
      'input {\n  nam: "m"\n}',
      'line 2: not a ModelConfig in protobuf text format: ModelInput: unknown field \'nam\'\n    -> did you mean "name"?',
    ],
    [
      'an unknown value',
      'config.pbtxt',
      'name: "m"\ninput {\n  data_type: FP32\n}\nplatform: "a"\n',
      'line 3: not a ModelConfig in protobuf text format: ModelInput.data_type: enum value expected',
    ],
    [
      'a number out of range',
      'config.pbtxt',
      'max_batch_size: 1\ninput {\n dims: 1 }\ninstance_group {\n count: 99999999999 }\n',
      'line 5: not a ModelConfig in protobuf text format: integer value out of range',
    ],
    [
      'a field twice',
      'config.pbtxt',
      'name: "a"\nname: "b"\nname: "c"',
      'line 2: not a ModelConfig in protobuf text format: ModelConfig.name: multiple values',
    ],
    [
      'two kinds of scheduling',
      'config.pbtxt',
      'dynamic_batching {}\nsequence_batching {}',
      'line 2: not a ModelConfig in protobuf text format: scheduling_choice: multiple values',
    ],
    [
      'an end too early',
      'config.pbtxt',
      'input {\n  name: "x"\n',
      "line 3: not a ModelConfig in protobuf text format: expected '}'",
    ],
    [
      'YAML',
      'config.pbtxt',
      'platform: pytorch_libtorch',
      'line 1: not a ModelConfig in protobuf text format: expected string',
    ],
  ])('names %s', async (_title, name, content, problem) => {
    const root = folder({ [`m/${name}`]: content, 'm/1/model.pt': torchScript() });
    const { models, texts } = await read(root);
    expect(models).toEqual([]);
    expect(texts).toEqual([`m/${name.replace('/', '')}: ${problem}`]);
  });

  it('names the values of a config.pbtxt that are no values', async () => {
    const io = 'input { name: "a" data_type: 99 dims: 9223372036854775807 }';
    const root = folder({ 'm/config.pbtxt': `backend: "python" ${io}`, 'm/1/model.py': 'x' });
    expect((await read(root)).texts.slice(0, 2)).toEqual([
      expect.stringMatching(
        /^m\/config\.pbtxt: input\[0\]\.data_type: is not one of the values of DataType, got 99; allowed: /,
      ),
      'm/config.pbtxt: input[0].dims[0]: is out of range, got 9223372036854775807; allowed: -9007199254740991 to 9007199254740991',
    ]);
  });

  it('wants a configuration where there are versions', async () => {
    const root = folder({ 'm/1/model.onnx': 'x' });
    expect((await read(root)).texts).toEqual([
      'm: has version folders, but neither model.yaml nor config.pbtxt\n    -> write one of them',
    ]);
  });
});

describe('a configuration with mistakes of form', () => {
  it('is checked on, without what only follows from them', async () => {
    const yaml = modelYaml({ platform: 5, max_batch_size: 'x', input: [{ name: 'a', data_type: 'FP32', dims: [0] }] });
    const { texts } = await read(folder({ 'm/model.yaml': yaml }), { artifacts: false });
    expect(texts.map((text) => text.split(/[;\n]/)[0])).toEqual([
      'm/model.yaml: platform: must be a text, got 5',
      'm/model.yaml: max_batch_size: must be a whole number, got "x"',
      'm/model.yaml: input[0].data_type: is not one of the values of DataType, got "FP32"',
      'm/model.yaml: input[0].dims[0]: is not a size, got 0',
    ]);
  });

  it('is not what an ensemble is compared with', async () => {
    const broken = modelYaml({ input: [{ name: 'input__0', data_type: 'FP32', dims: [3] }], max_batch_size: 'x' });
    const io = { data_type: 'TYPE_FP32', dims: [7] };
    const ensemble = JSON.stringify({
      platform: 'ensemble',
      max_batch_size: 99,
      input: [{ name: 'x', ...io }],
      output: [{ name: 'y', ...io }],
      ensemble_scheduling: {
        step: [{ model_name: 'm', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } }],
      },
    });
    const { texts } = await read(folder({ 'm/model.yaml': broken, 'e/model.yaml': ensemble }), { artifacts: false });
    expect(texts.map((text) => text.split(': ').slice(0, 2).join(': '))).toEqual([
      'm/model.yaml: max_batch_size',
      'm/model.yaml: input[0].data_type',
    ]);
  });
});

describe('selection', () => {
  const step = (model_name: string, from: string, to: string): object => ({
    model_name,
    model_version: -1,
    input_map: { input__0: from },
    output_map: { output__0: to },
  });
  const tensor = (name: string): object => ({ name, data_type: 'TYPE_FP32', dims: [3] });
  const same = modelYaml({ output: [tensor('output__0')] });
  const repository = {
    'a/model.yaml': same,
    'a/1/model.pt': torchScript(),
    'b/model.yaml': same,
    'b/1/model.pt': torchScript(),
    'broken/model.yaml': '[',
    'ens/model.yaml': JSON.stringify({
      platform: 'ensemble',
      input: [tensor('x')],
      output: [tensor('y')],
      ensemble_scheduling: {
        step: [step('a', 'x', 'z'), step('b', 'z', 'y'), step('a', 'z', 'u'), step('b', 'u', 'v')],
      },
    }).replace('"output":[', '"output":[{"name":"v","data_type":"TYPE_FP32","dims":[3]},'),
    'ens/1/.keep': '',
  };
  const names = ({ models }: Repository): string[] => models.map(({ name }) => name);

  it('takes all models by default', async () => {
    const result = await read(folder(repository));
    expect(names(result)).toEqual(['a', 'b', 'ens']);
    expect(result.texts).toEqual([expect.stringMatching(/^broken\/model\.yaml: not valid YAML: line 1, column 2: /)]);
  });

  it('looks at nothing else than what is asked for', async () => {
    const result = await read(folder(repository), { models: ['a'] });
    expect(names(result)).toEqual(['a']);
    expect(result.texts).toEqual([]);
    expect(result.added).toEqual([]);
  });

  it('adds the models of an ensemble, and says so', async () => {
    const result = await read(folder(repository), { models: ['ens', 'b'] });
    expect(names(result)).toEqual(['a', 'b', 'ens']);
    expect(result.added).toEqual(['a']);
    expect(result.texts).toEqual([]);
    expect(stepModels(result.models[2]?.config ?? { name: '' })).toEqual(['a', 'b']);
    expect(stepModels(result.models[0]?.config ?? { name: '' })).toEqual([]);
  });

  it('leaves models out', async () => {
    const result = await read(folder(repository), { exclude: ['broken', 'ens', 'a'] });
    expect(names(result)).toEqual(['b']);
    expect(result.texts).toEqual([]);
  });

  it('does not leave out what an ensemble needs', async () => {
    const result = await read(folder(repository), { models: ['ens'], exclude: ['b'] });
    expect(result.texts).toEqual([
      'ens/model.yaml: ensemble_scheduling.step[1].model_name: b is excluded, but needed here\n    -> exclude ens too',
      'ens/model.yaml: ensemble_scheduling.step[3].model_name: b is excluded, but needed here\n    -> exclude ens too',
    ]);
  });

  it('knows the names that there are', async () => {
    const { texts } = await read(folder(repository), { models: ['a', 'brocken', 'zzz'], exclude: ['Ens'] });
    expect(texts).toEqual([
      '.: has no model "brocken"; allowed: a, b, broken, ens\n    -> did you mean broken?',
      '.: has no model "zzz"; allowed: a, b, broken, ens',
      '.: has no model "Ens"; allowed: a, b, broken, ens\n    -> did you mean ens?',
    ]);
  });

  it('wants the version that a step names', async () => {
    const fixed = JSON.parse(repository['ens/model.yaml']) as {
      ensemble_scheduling: { step: { model_version: number }[] };
    };
    fixed.ensemble_scheduling.step.forEach((step, index) => (step.model_version = [2, 1, -1, -1][index] ?? 0));
    const root = folder({ ...repository, 'ens/model.yaml': JSON.stringify(fixed) });
    expect((await read(root, { models: ['ens'] })).texts).toEqual([
      'ens/model.yaml: ensemble_scheduling.step[0].model_version: is not a version of a, got 2; allowed: -1 for the newest, 1',
    ]);
  });

  it('says that there is nothing', async () => {
    const empty = folder({ 'docs/a.md': '' });
    expect((await read(empty)).texts).toEqual([
      '.: holds no model\n    -> a model is a folder with a model.yaml or a config.pbtxt; name the folder that the models are in',
    ]);
    const gone = path.join(empty, 'gone');
    expect((await read(gone)).texts).toEqual([`.: cannot be read: there is no such file or folder`]);
    writeFileSync(path.join(empty, 'file'), '');
    expect((await read(path.join(empty, 'file'))).texts).toEqual(['.: cannot be read: it is not a folder']);
  });

  it('is not stopped by a folder that goes away meanwhile', async () => {
    const root = folder(repository);
    const readFile = jest.spyOn(fs.promises, 'readFile').mockImplementationOnce(() => {
      for (const name of readdirSync(root)) rmSync(path.join(root, name), { recursive: true });
      return Promise.reject(Object.assign(new Error('gone'), { code: 'ENOENT' }));
    });
    const { models, problems } = await read(root);
    readFile.mockRestore();
    expect(models).toEqual([]);
    expect(problems).toHaveLength(4);
  });
});
