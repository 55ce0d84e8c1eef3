import { main } from '../../../scripts/validate';
import {
  MODEL_REPO,
  folder,
  modelYaml,
  removeFolders,
  torchScript,
  tracedModel,
  program,
} from '../../support/model-files';

afterEach(async () => {
  jest.restoreAllMocks();
  await removeFolders();
});

/** Runs the command; what it prints comes back as text. */
async function run(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const printed = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    jest.spyOn(process[stream], 'write').mockImplementation((text) => {
      printed[stream] += String(text);
      return true;
    });
  }
  const code = await main(argv);
  jest.restoreAllMocks();
  return { code, out: printed.stdout, err: printed.stderr };
}

/** Of the model that `sound` makes. */
const HINT = expect.stringMatching(
  /^hint: m: model_warmup: lacks two calls of batch size 1, 2, 3, 4, 5, 6, 7, 8, so .*\n {4}-> add .*\n$/,
) as string;

const sound = (): string =>
  folder({
    'adder/config.pbtxt': 'backend: "python"',
    'adder/1/model.py': 'x',
    'm/model.yaml': modelYaml({ dynamic_batching: {} }),
    'm/1/model.pt': torchScript(),
    'm/3/model.pt': torchScript(),
  });

describe('validate', () => {
  it('prints the models', async () => {
    expect(await run('--repo', sound())).toEqual({
      code: 0,
      err: HINT,
      out: [
        'model  versions  served  platform          batching          files   size',
        '-----  --------  ------  ----------------  ----------------  -----  -----',
        'adder         1       1  python            -                     1    1 B',
        `m           1 3       3  pytorch_libtorch  up to 8, dynamic      2  ${2 * torchScript().length} B`,
        '',
        'Estimated peak memory: 0.6 GiB for npm run local; 0.7 GiB of main memory and 0.6 GiB of each GPU in a pod',
        '2 models, 0 problems',
        '',
      ].join('\n'),
    });
  });

  it('prints the problems, and exits with 1', async () => {
    const root = folder({
      'm/model.yaml': modelYaml({
        max_batch_size: -1,
        parameters: { DISABLE_OPTIMIZED_EXECUTION: { string_value: 'true' } },
      }),
      'm/1/': '',
    });
    const { code, out, err } = await run('--repo', root);
    expect(code).toBe(1);
    expect(err.split('\n')).toEqual([
      `${root}/m/1/model.pt: is missing`,
      '    -> put it at m/1/model.pt',
      `${root}/m/model.yaml: max_batch_size: must not be negative, got -1; allowed: 0 for no batch axis, or the largest batch`,
      '',
    ]);
    expect(out).toContain('\n1 model, 2 problems\n');
  });

  it('reports what a release of Triton cannot serve; by default that of the Dockerfile', async () => {
    const tensor = (name: string) => [{ name, data_type: 'TYPE_FP32', dims: [1] }];
    const fields = { platform: 'torch_aoti', input: tensor('INPUT__0'), output: tensor('OUTPUT__0') };
    const root = folder({ 'm/model.yaml': modelYaml(fields), 'm/1/model.pt2': program('compiled') });
    expect((await run('--repo', root)).code).toBe(0);
    const { code, err } = await run('--repo', root, '--triton', '26.02');
    expect(code).toBe(1);
    expect(err).toContain('m/model.yaml: platform: is not supported by Triton 26.02, got torch_aoti;');
  });

  it('refuses a release that it does not know', async () => {
    const { code, err } = await run('--repo', sound(), '--triton', '26.13');
    expect(code).toBe(2);
    expect(err).toMatch(
      /unknown release of Triton: "26\.13"\n +-> give one from 24\.10 to \d\d\.\d\d, such as --triton/,
    );
  });

  it('warns of a model whose files changed since its trace, and exits with 0', async () => {
    const root = folder({ ...tracedModel('m'), 'm/net.py': 'LAYERS = 4\n' });
    const { code, out, err } = await run('--repo', root);
    expect(err).toContain(
      `warning: ${root}/m/1/model.pt: is stale; since the trace: net.py changed\n    -> run "npm run trace -- --models m `,
    );
    expect(out).toContain('\n1 model, 0 problems\n');
    expect(code).toBe(0);
    const { out: json } = await run('--repo', root, '--json');
    expect(JSON.parse(json)).toMatchObject({
      problems: [],
      warnings: [{ file: `${root}/m/1/model.pt`, message: 'is stale; since the trace: net.py changed' }],
    });
  });

  it('names the missing version that the policy serves', async () => {
    const versions = { version_policy: { specific: { versions: [1, 3] } } };
    const root = folder({ 'm/model.yaml': modelYaml(versions), 'm/1/model.pt': torchScript() });
    expect((await run('--repo', root)).out).toMatch(/^m +1 +1 3 \(missing\) +pytorch_libtorch/m);
  });

  it('prints JSON', async () => {
    const { code, out } = await run('--repo', sound(), '--models', 'm, adder', '--exclude', 'adder', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      models: [
        {
          name: 'm',
          platform: 'pytorch_libtorch',
          versions: [1, 3],
          served: [3],
          files: 2,
          bytes: 2 * torchScript().length,
          config: { name: 'm', ...(JSON.parse(modelYaml({ dynamic_batching: {} })) as object) },
        },
      ],
      problems: [],
      warnings: [],
      advice: [expect.objectContaining({ file: 'm', field: 'model_warmup' })],
      memory: {
        models: [expect.objectContaining({ name: 'm', weights: torchScript().length, main: 3 * torchScript().length })],
        ...Object.fromEntries(['local', 'main', 'gpu'].map((key) => [key, expect.any(Number)])),
      },
      added: [],
    });
  });

  it('names the models that an ensemble needs', async () => {
    const { code, out } = await run('--repo', MODEL_REPO, '--models', 'ens_face_restoration_v2.1');
    // Whether the models are traced yet is not the question here.
    expect([0, 1]).toContain(code);
    expect(out).toContain(
      'Added, because an ensemble uses them: infer_face_restoration_v2.1, post_gfpgan, pre_gfpgan\n4 models, ',
    );
  });

  it.each([
    [['--json=yes'], "error: unknown option '--json=yes'"],
    [['--models', 'a,'], 'error: --models "a," has an empty name'],
  ])('exits with 2 at %j', async (argv, message) => {
    const { code, out, err } = await run(...argv);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(message);
  });

  it.each([
    ['models', 'm', 2, 'error: npm took --models for itself\n  -> write "npm run NAME -- --models"\n'],
    ['json', 'true', 0, HINT], // npm's own flag, which its settings may hold
    ['models', 'false', 0, HINT],
  ])('refuses flags that npm took for itself: npm_config_%s=%s', async (name, value, code, err) => {
    jest.replaceProperty(process, 'env', { ...process.env, [`npm_config_${name}`]: value });
    expect(await run('--repo', sound())).toMatchObject({ code, err });
  });
});
