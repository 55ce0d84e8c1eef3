import { torchScript } from '../model-files';
import { ARTIFACT, begins, sound, type Malformed, type MalformedCase } from './case';
import { state } from './rules/sequence';
import { warmup } from './rules/warmup';
import { SOUND_YAML } from './yaml';

const YAML = { 'm/model.yaml': JSON.stringify(sound()) };
const file = (files: Record<string, Malformed>, problem: string, more: Partial<MalformedCase> = {}): MalformedCase => ({
  name: `files: ${problem}`,
  files: { ...YAML, ...files },
  problems: [begins(problem)],
  ...more,
});

/** Files and folders that cannot be published. */
export const FILES: readonly MalformedCase[] = [
  file(
    { 'm/1/model.pt': 'version https://git-lfs.github.com/spec/v1\n' },
    'm/1/model.pt: is a Git LFS pointer, not the model',
  ),
  file({ ...ARTIFACT, 'm/2/model.pt': 'x' }, 'm/2/model.pt: is not TorchScript'),
  file({ ...ARTIFACT, 'm/+1/model.pt': torchScript() }, 'm/+1: is not a version that Triton serves'),
  file({ ...ARTIFACT, 'm/2': { link: '/usr' } }, 'm/2: is a link to ', {
    problems: [begins('m/2: is a link to '), begins('m/2/model.pt: is missing')],
  }),
  file({ 'm/1/model.pt': { pipe: true } }, 'm/1/model.pt: is not a regular file'),
  file({ ...ARTIFACT, 'm/1/a\u0007': 'x' }, 'm/1/a\u0007: has a name that S3 or Triton does not support'),
  file(
    { ...ARTIFACT, 'm/model.yaml': { mode: 0, content: SOUND_YAML } },
    'm/model.yaml: cannot be read: permission denied',
    { notForRoot: true },
  ),
  file(
    {
      ...ARTIFACT,
      'm/model.yaml': JSON.stringify(sound(warmup({}, { zero_data: undefined, input_data_file: 'a' }))),
      'm/warmup/a': 'x',
    },
    'm/model.yaml: model_warmup[0].inputs.input__0.input_data_file: names a file that is too short: "warmup/a" has 1 bytes; allowed: 12 bytes',
  ),
  file(
    {
      ...ARTIFACT,
      'm/model.yaml': JSON.stringify(sound(state({}, { zero_data: undefined, data_file: 'a' }))),
      'm/initial_state/a': '',
    },
    'm/model.yaml: sequence_batching.state[0].initial_state[0].data_file: names a file that is too short',
  ),
  file({ ...ARTIFACT, 'm/config.pbtxt': '{' }, 'm/config.pbtxt: is beside model.yaml in the same folder'),
  file({ ...ARTIFACT, 'm/model.yaml': { link: 'nowhere' } }, 'm/model.yaml: cannot be read: no such file'),
  {
    name: 'files: a trace.py alone',
    files: { 'm/trace.py': '', 'n/README': '' },
    problems: [begins('m: has neither model.yaml nor config.pbtxt')],
  },
  {
    name: 'files: a folder as model.yaml',
    files: { ...ARTIFACT, 'm/model.yaml/': '' },
    problems: [begins('m/model.yaml: cannot be read: it is a folder')],
  },
  {
    name: 'files: a configuration that leads out',
    files: { ...ARTIFACT, 'm/model.yaml': { link: '/etc/hostname' } },
    problems: [begins('m/model.yaml: is a link to ')],
  },
];

/** Names that S3 or Triton does not accept. */
export const NAMES: readonly MalformedCase[] = [
  'a b',
  ...'a+b a%b a&b a?b a#b a:b a\'b a"b é 模型 -a a*b a,b a@b a$b a=b a~b a\\b'.split(' '),
].map((name) => ({
  name: `names: a model called ${name}`,
  files: { [`${name}/model.yaml`]: JSON.stringify(sound()), [`${name}/1/model.pt`]: torchScript() },
  problems: [
    `${name}/model.yaml: name: cannot be used as a name in S3 and in Triton's URLs, got ${JSON.stringify(name)}; ` +
      'allowed: letters, digits, "_", "-" and ".", not starting with "-" or "."\n    -> rename the folder',
  ],
}));
