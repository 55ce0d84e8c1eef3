import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { cacheRoot } from '../../src/local/install/cache';
import { listenOnLoopback } from '../support/loopback';
import { modelYaml, torchScript } from '../support/model-files';
import { writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(600_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A trace.py that multiplies by the given weights, or by random weights. */
const SCALE = `
from pathlib import Path

import torch
from torch import nn
from tracing import TorchScriptExport, Weights


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.register_buffer("factor", factor)

    def forward(self, x):
        return x * self.factor


def read(path):
    return torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.float32)


def export(context):
    given = context.weights is not None
    return TorchScriptExport(
        eager=Scale(read(context.weights) if given else torch.rand(3)),
        example_inputs=(torch.rand(2, 3),),
        fresh_inputs=[(torch.rand(batch, 3),) for batch in (1, 8)],
        tolerance=0,
        weights=Weights("pretrained", "a file", context.weights) if given else Weights.random(context.seed),
        extra_files={"labels.txt": b"one\\ntwo\\nthree\\n"},
    )
`;
const TRACED = {
  'scale/model.yaml': modelYaml({ output: [{ name: 'output__0', data_type: 'TYPE_FP32', dims: [3] }] }),
  'scale/trace.py': SCALE,
};

const trace = (repository: string, ...flags: string[]): Promise<Finished> =>
  runCommandLine('trace', ['--repo', repository, ...flags]);

test.each(['sys.exit(0)', '__import__("os")._exit(0)'])(
  'trace fails if trace.py ends the process by %s',
  async (end) => {
    const repository = join(scratch.directory, 'ends');
    rmSync(repository, { recursive: true, force: true });
    writeRepository(repository, { ...TRACED, 'scale/trace.py': `import sys\n${SCALE}\n${end}\n` });
    const { code, stderr } = await trace(repository);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /scale: the tracing process ended before the model was traced\n.*-> remove sys\.exit and os\._exit/,
    );
    expect(existsSync(join(repository, 'scale', '1', 'model.pt'))).toBe(false);
  },
);

/** A trace.py of a scripted module with constants. */
const RECURRENT = `
import torch
from torch import nn
from tracing import TorchScriptExport, Weights


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x.unsqueeze(1))[0].squeeze(1)


def export(context):
    return TorchScriptExport(
        eager=Recurrent(),
        example_inputs=None,
        fresh_inputs=[(torch.rand(batch, 3),) for batch in (1, 8)],
        tolerance=1e-6,
        weights=Weights.random(context.seed),
    )
`;

test('a scripted module is traced to the same bytes each time', async () => {
  const repository = writeRepository(join(scratch.directory, 'again'), { ...TRACED, 'scale/trace.py': RECURRENT });
  const traced = async (): Promise<string> => {
    const { code, stderr } = await trace(repository, '--force');
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    return createHash('sha256')
      .update(readFileSync(join(repository, 'scale', '1', 'model.pt')))
      .digest('hex');
  };
  expect(await traced()).toBe(await traced());
});

test('trace reports all errors of a model.yaml before it runs any trace.py', async () => {
  const repository = join(scratch.directory, 'invalid');
  writeRepository(repository, {
    'scale/model.yaml': modelYaml({
      max_batch_size: -1,
      output: [{ name: 'y__0', data_type: 'TYPE_FP32', dims: [0] }],
    }),
    'scale/trace.py': 'import time\ntime.sleep(10**6)\n',
    'own/model.yaml': modelYaml({ max_batch_size: -1 }),
  });
  const { code, stderr } = await trace(repository);
  expect(code).toBe(1);
  expect(stderr).toMatch(/is not ready to be traced\n/);
  const fields = [...stderr.matchAll(/(\w+)\/model\.yaml: ([\w[\].]+): /g)].map(([, model, field]) => [model, field]);
  expect(fields).toEqual([
    ['scale', 'output[0].dims[0]'],
    ['scale', 'max_batch_size'],
  ]);
});

test('validate reports what changed since the trace', async () => {
  const repository = join(scratch.directory, 'stale');
  writeRepository(repository, { ...TRACED, 'scale/net.py': '' });
  expect(await trace(repository)).toMatchObject({ code: 0 });
  const validate = async (): Promise<unknown> => {
    const { code, stdout } = await runCommandLine('validate', ['--repo', repository, '--json']);
    const { problems, warnings } = JSON.parse(stdout) as Record<string, { message: string }[]>;
    return { code, found: [...(problems ?? []), ...(warnings ?? [])].map(({ message }) => message) };
  };
  expect(await validate()).toEqual({ code: 0, found: [] });
  writeRepository(repository, { 'scale/net.py': 'a = 1', 'scale/words.txt': 'a', 'scale/labels.txt': 'x' });
  rmSync(join(repository, 'scale', 'golden', '1', 'traced-0.json'));
  const changes = 'golden/1/traced-0.json was removed, labels.txt changed, net.py changed';
  expect(await validate()).toEqual({ code: 0, found: [`is stale; since the trace: ${changes}`] });
  expect(await trace(repository)).toMatchObject({ code: 0 });
  expect(await validate()).toEqual({ code: 0, found: [] });
  writeFileSync(join(repository, 'scale', '1', 'model.pt'), torchScript());
  expect(await validate()).toEqual({ code: 1, found: [expect.stringContaining('is not the file that npm run trace')] });
});

describe('in a Git repository', () => {
  const root = join(scratch.directory, 'git');
  const repository = join(root, 'model-repo');
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
  const OWN = {
    ...TRACED,
    'ranker/model.yaml': modelYaml(),
    'ranker/1/model.pt': torchScript(),
    'ranker/labels.txt': 'a\nb\n',
    'python/config.pbtxt': 'backend: "python"',
    'python/1/model.py': 'class TritonPythonModel: pass\n',
    'python/README.md': 'about',
    'scale/golden/first.json': '{}',
  };

  test('git adds every hand-written file and no traced file', async () => {
    writeRepository(repository, OWN);
    copyFileSync(join(paths.root, '.gitignore'), join(root, '.gitignore'));
    git('init', '--quiet');
    expect(await trace(repository)).toMatchObject({ code: 0 });
    git('add', '--all');
    const added = git('ls-files', 'model-repo').trim().split('\n');
    expect(added).toEqual(
      Object.keys(OWN)
        .map((path) => `model-repo/${path}`)
        .sort(),
    );
    expect(git('clean', '-ndx').match(/\S+$/gm)).toEqual(
      expect.arrayContaining(['model-repo/scale/1/', 'model-repo/scale/labels.txt']),
    );
  });

  test('git ignores traced files while the next model is traced', async () => {
    const waiting = join(scratch.directory, 'waiting');
    const ignored = join(waiting, 'scale', '1', '.gitignore');
    writeRepository(waiting, {
      ...TRACED,
      'waits/model.yaml': modelYaml(),
      'waits/trace.py': [
        'import time',
        'from pathlib import Path',
        'def export(context):',
        '    for _ in range(300):',
        `        if Path("${ignored}").exists(): raise RuntimeError("it is ignored")`,
        '        time.sleep(0.1)',
        '    raise RuntimeError("it is not")',
      ].join('\n'),
    });
    const { stderr } = await trace(waiting, '--jobs', '1');
    expect(stderr).toContain('it is ignored');
  });

  test('git clean -X deletes traced files, and trace creates them again', async () => {
    git('clean', '--quiet', '-fdX');
    for (const path of Object.keys(OWN)) expect([path, existsSync(join(repository, path))]).toEqual([path, true]);
    expect(existsSync(join(repository, 'scale', '1'))).toBe(false);
    expect(await trace(repository)).toMatchObject({ code: 0, stdout: expect.stringContaining('made in') as string });
    expect(git('status', '--short')).not.toContain('??');
  });

  test('git adds a model.pt that replaces the traced one', async () => {
    rmSync(join(repository, 'scale', 'trace.py'));
    writeFileSync(join(repository, 'scale', '1', 'model.pt'), torchScript());
    await trace(repository);
    git('add', '--all');
    expect(git('ls-files', 'model-repo/scale')).toContain('model-repo/scale/1/model.pt\n');
    expect(git('ls-files', 'model-repo/scale')).not.toContain('.gitignore');
  });
});

describe('with a weights.yaml', () => {
  const artifact = torchScript();
  const [first, second] = [
    [1, 2, 3],
    [4, 5, 6],
  ].map((numbers) => Buffer.from(new Float32Array(numbers).buffer));
  const sha256 = (bytes: Buffer | undefined): string =>
    createHash('sha256')
      .update(bytes ?? '')
      .digest('hex');
  const repository = join(scratch.directory, 'weights');
  const record = (): { weights: { kind: string }; given_weights: unknown } =>
    JSON.parse(readFileSync(join(repository, 'scale', '1', 'model.pt.trace.json'), 'utf8')) as ReturnType<
      typeof record
    >;
  let address: string;
  beforeAll(async () => {
    const { port, stop } = await listenOnLoopback(
      createServer((request, response) => response.end(request.url === '/first.bin' ? first : artifact)),
    );
    scratch.defer(stop);
    address = `http://127.0.0.1:${port}`;
    const weights = { url: `${address}/first.bin`, sha256: sha256(first) };
    const artifactFile = { url: `${address}/model.pt`, sha256: sha256(artifact), file: '1/model.pt' };
    writeRepository(repository, {
      ...TRACED,
      'scale/weights.yaml': JSON.stringify([weights]),
      'ranker/model.yaml': modelYaml(),
      'ranker/weights.yaml': JSON.stringify([artifactFile]),
    });
    writeFileSync(join(scratch.directory, 'second.bin'), second ?? '');
  });
  afterAll(() => rmSync(join(cacheRoot(), 'weights', sha256(first)), { recursive: true, force: true }));
  test('trace uses the weights and downloads the files named there', async () => {
    const { code, stdout } = await trace(repository);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('scale: ') as string });
    expect(stdout).toContain('ranker: downloaded 1 file that weights.yaml names\n');
    expect(readFileSync(join(repository, 'ranker', '1', 'model.pt'))).toEqual(artifact);
    expect(readFileSync(join(repository, 'ranker', '1', '.gitignore'), 'utf8')).toContain('\n/model.pt\n');
    expect(record()).toMatchObject({
      weights: { kind: 'pretrained', source: 'first.bin' },
      given_weights: { name: 'first.bin', sha256: sha256(first) },
    });
  });

  test('weights on the command line take precedence', async () => {
    const flags = ['--models', 'scale,ranker', '--weights', `scale=${join(scratch.directory, 'second.bin')}`];
    const { code, stdout } = await trace(repository, ...flags);
    expect(code).toBe(0);
    expect(stdout).toContain('ranker has no trace.py, so nothing is traced\n');
    expect(record()).toMatchObject({ given_weights: { name: 'second.bin', sha256: sha256(second) } });
  });
});

describe('npm run init -- --from', () => {
  const repository = join(scratch.directory, 'from');
  const run = (command: string, ...args: string[]): Promise<Finished> =>
    runCommandLine(command, [...args, '--repo', repository]);

  test('writes the model.yaml of a file in a model folder, as validate proposes', async () => {
    writeRepository(repository, { 'scorer/1/README': '' });
    copyFileSync(join(paths.root, 'test', 'data', 'onnx', 'sound.onnx'), join(repository, 'scorer', '1', 'best.onnx'));
    const { stderr } = await run('validate');
    const [, from = '', name = ''] = /npm run init -- --from (\S+) (\S+) --repo/.exec(stderr) ?? [];
    const { code, stdout } = await run('init', '--from', from, name);
    expect(stdout).toContain('1 model, 0 problems');
    expect(code).toBe(0);
    expect(existsSync(join(repository, 'scorer', '1', 'best.onnx'))).toBe(false);
    expect(existsSync(join(repository, 'scorer', '1', 'model.onnx'))).toBe(true);
  });

  test('takes the weights outside of an ONNX file along, and validate reports if they are missing', async () => {
    const file = join(paths.root, 'test', 'data', 'onnx', 'outside.onnx');
    expect(await run('init', '--from', file)).toMatchObject({ code: 0 });
    rmSync(join(repository, 'outside', '1', 'outside.bin'));
    const { code, stderr } = await run('validate', '--models', 'outside');
    expect(stderr).toContain(
      'outside/1/model.onnx: has its weights in outside.bin, which is not in its version folder\n',
    );
    expect(code).toBe(1);
  });

  test('copies a TorchScript file and refuses a model that exists', async () => {
    const file = join(repository, 'scale', '1', 'model.pt');
    writeRepository(repository, TRACED);
    expect(await trace(repository, '--models', 'scale')).toMatchObject({ code: 0 });
    expect(await run('init', '--from', file, 'copy', '--input', 'FP32:3')).toMatchObject({ code: 0 });
    expect(readFileSync(join(repository, 'copy', '1', 'model.pt'))).toEqual(readFileSync(file));
    const { code, stderr } = await run('init', '--from', file, 'copy', '--input', 'FP32:3');
    expect(code).toBe(1);
    expect(stderr).toMatch(/copy\/model\.yaml exists already\n.*-> choose another name/);
    const place = await runCommandLine('init', ['--from', file, 'x', '--input', 'FP32:3', '--repo', file]);
    expect(place.stderr).toMatch(/error: cannot write .*model\.pt\/x: /);
  });
});
