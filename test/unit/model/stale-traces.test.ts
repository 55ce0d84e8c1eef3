import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { requirePublishable, staleTraces } from '../../../src/model';
import {
  folder,
  modelYaml,
  program,
  read,
  removeFolders,
  texts,
  torchScript,
  zip,
  tracedModel,
} from '../../support/model-files';

afterEach(removeFolders);

/** A repository with the traced model `m`, and these changes: path in the folder of m -> content. */
function traced(changes: Record<string, string | Buffer | undefined> = {}, version = 1): string {
  const root = folder(tracedModel('m', version));
  for (const [name, content] of Object.entries(changes)) {
    const file = join(root, 'm', name);
    if (content === undefined) rmSync(file);
    else {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
  }
  return root;
}

async function warnings(root: string): Promise<string[]> {
  const { models, texts: problems } = await read(root);
  expect(problems).toEqual([]);
  return texts(await staleTraces(models), root);
}

const specific = (...versions: number[]): string => modelYaml({ version_policy: { specific: { versions } } });

test.each<[what: string, changes: Record<string, string | undefined>, reason: string | undefined]>([
  ['no changed file', {}, undefined],
  ['the same bytes written again', { 'net.py': 'LAYERS = 3\n', 'labels.txt': 'cat\ndog\n' }, undefined],
  ['a changed trace.py', { 'trace.py': 'import other\n' }, 'trace.py changed'],
  ['changed weights', { 'weights.pth': 'WEIGHTS' }, 'weights.pth changed'],
  ['changed labels that the trace wrote', { 'labels.txt': 'cat\n' }, 'labels.txt changed'],
  ['a removed module', { 'net.py': undefined }, 'net.py was removed'],
  ['a changed module outside of the folder', { '../shared.py': '' }, '../shared.py changed'],
  ['a removed module outside of the folder', { '../shared.py': undefined }, undefined],
  [
    'several changes',
    { 'weights.pth': 'w', 'trace.py': '', 'net.py': undefined },
    'net.py was removed, trace.py changed, weights.pth changed',
  ],
  [
    'files that no trace reads',
    { '.cache/x': 'x', '__pycache__/x.pyc': 'x', '1/notes.txt': 'x', 'golden/notes.txt': 'x' },
    undefined,
  ],
  ['a changed model.yaml', { 'model.yaml': modelYaml({ instance_group: [{ count: 2 }] }) }, undefined],
  ['no trace.py', { 'trace.py': undefined }, undefined],
  ['no record', { '1/model.pt.trace.json': undefined, 'net.py': '' }, undefined],
  ['a damaged record', { '1/model.pt.trace.json': '{"artifact": 3', 'net.py': '' }, undefined],
])('staleTraces after %s', async (_, changes, reason) => {
  const root = traced(changes);
  const expected = `m/1/model.pt: is stale; since the trace: ${reason}\n    -> run "npm run trace -- --models m --repo .`;
  expect(await warnings(root)).toEqual(reason === undefined ? [] : [`${expected}" to include these changes`]);
});

test.each([
  { policy: [1], made: 1, stale: ['1'] },
  { policy: [1, 2], made: 1, stale: [] },
  { policy: [1, 2], made: 2, stale: ['2'] },
])(
  'staleTraces compares only the newest of versions $policy: version $made is stale',
  async ({ policy, made, stale }) => {
    const root = traced({ 'model.yaml': specific(...policy), 'net.py': '', '1/model.pt': torchScript() }, made);
    if (policy.includes(2)) {
      mkdirSync(join(root, 'm', '2'), { recursive: true });
      writeFileSync(join(root, 'm', '2', 'model.pt'), torchScript());
    }
    const found = (await warnings(root)).map((text) => /^m\/(\d)\/model\.pt: .*net\.py changed/.exec(text)?.[1]);
    expect(found).toEqual(stale);
  },
);

const RECORD = '1/model.pt.trace.json';
const FP32 = { name: 'input__0', data_type: 'TYPE_FP32' };

test.each<[what: string, changes: Record<string, string | undefined>, message: string | undefined]>([
  ['as it was checked', {}, undefined],
  ['of a smaller batch', { 'model.yaml': modelYaml({ max_batch_size: 2 }) }, undefined],
  [
    'of a larger batch',
    { 'model.yaml': modelYaml({ max_batch_size: 16 }) },
    'm/1/model.pt: was checked with max_batch_size 8, and model.yaml now has 16',
  ],
  [
    'without a batch',
    { 'model.yaml': modelYaml({ max_batch_size: 0, input: [{ ...FP32, dims: [-1, 3] }] }) },
    'm/1/model.pt: was checked with max_batch_size 8, and model.yaml now has 0',
  ],
  [
    'of any size',
    { 'model.yaml': modelYaml({ input: [{ ...FP32, dims: [-1] }] }) },
    'm/1/model.pt: was checked with inputs of dims [[3]], and model.yaml now allows [[-1]]',
  ],
  [
    'of the checked size, reshaped',
    { 'model.yaml': modelYaml({ input: [{ ...FP32, dims: [3, 1], reshape: { shape: [3] } }] }) },
    undefined,
  ],
  [
    'of which only the record is missing',
    { [RECORD]: undefined },
    'm/1: has a file without its trace record, so it may never have been compared with PyTorch',
  ],
  ['of the user', { [RECORD]: undefined, 'trace.py': undefined }, undefined],
])('requirePublishable of a model %s', async (_, changes, message) => {
  const root = traced(changes);
  const { models } = await read(root);
  const found = await requirePublishable(models).catch((error: unknown) => error);
  const [problem = '', hint] = texts(found instanceof UserError ? found.problems : [], root)[0]?.split('\n') ?? [];
  expect(problem).toBe(message ?? '');
  if (message !== undefined) expect(hint).toMatch(/-> run "npm run trace -- --models m --repo \. --version 1"/);
});

test.each(['exported', 'compiled'] as const)('requirePublishable of an %s program', async (kind) => {
  const yaml = modelYaml({
    platform: 'torch_aoti',
    input: [{ ...FP32, name: 'INPUT__0' }],
    output: [{ ...FP32, name: 'OUTPUT__0' }],
  });
  const root = folder({ 'm/model.yaml': yaml, 'm/1/model.pt2': program(kind) });
  const { models } = await read(root);
  const found = await requirePublishable(models).catch((error: unknown) => error);
  expect(texts(found instanceof UserError ? found.problems : [], root).map((text) => text.split(',')[0])).toEqual(
    kind === 'exported'
      ? [
          'm/1/model.pt2: has to be compiled before Triton serves it: for its release and processor\n    -> run "npm run build -- --stack NAME --models m --repo ."',
        ]
      : [],
  );
});

describe('an artifact that replaces the traced one', () => {
  const other = (): Buffer => {
    const bytes = torchScript();
    bytes.writeUInt8(bytes.readUInt8(10) ^ 1, 10); // a time in the archive: the size is the same, and the archive valid
    return bytes;
  };
  const NAMES = ['model/data.pkl', 'model/code/__torch__/m.py', 'model/constants.pkl', 'model/version'];
  const message =
    'm/1/model.pt: is not the file that npm run trace wrote, so 1/model.pt.trace.json does not describe it';
  const hint =
    'run "npm run trace -- --models m --repo ."; or, to publish this file, delete trace.py, 1/model.pt.trace.json and golden/1/traced-*';

  test.each([
    { what: 'of another size', content: zip([...NAMES, 'model/data/0']) },
    { what: 'of the same size', content: other() },
  ])('is a problem: $what', async ({ content }) => {
    const root = traced({ '1/model.pt': content });
    expect((await read(root)).texts).toEqual([`${message}\n    -> ${hint}`]);
  });

  test('is a problem without a trace.py too, and none without the record', async () => {
    const root = traced({ '1/model.pt': other(), 'trace.py': undefined });
    expect((await read(root)).texts).toHaveLength(1);
    rmSync(join(root, 'm', '1', 'model.pt.trace.json'));
    expect((await read(root)).texts).toEqual([]);
  });

  test('is not reported beside another problem of the file', async () => {
    const root = traced({ '1/model.pt': '' });
    expect((await read(root)).texts).toEqual([expect.stringMatching(/^m\/1\/model\.pt: is empty/)]);
  });
});
