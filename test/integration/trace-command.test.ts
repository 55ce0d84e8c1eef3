import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../scripts/lib/paths';
import { modelYaml, torchScript } from '../unit/model/helpers';
import { writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/scratch';

jest.setTimeout(600_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A trace.py that multiplies by the weights that it is given, by random ones where there are none. */
const SCALE = `
import torch
from torch import nn
from tracing import TorchScriptExport, Weights


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.register_buffer("factor", factor)

    def forward(self, x):
        return x * self.factor


def export(context):
    given = context.weights is not None
    return TorchScriptExport(
        eager=Scale(torch.load(context.weights) if given else torch.rand(3)),
        example_inputs=(torch.rand(2, 3),),
        fresh_inputs=[(torch.rand(8, 3),)],
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

  test('every file of a person is added, and no file that trace made', async () => {
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

  test('git clean -X deletes what trace made, and trace makes it again', async () => {
    git('clean', '--quiet', '-fdX');
    for (const path of Object.keys(OWN)) expect([path, existsSync(join(repository, path))]).toEqual([path, true]);
    expect(existsSync(join(repository, 'scale', '1'))).toBe(false);
    expect(await trace(repository)).toMatchObject({ code: 0, stdout: expect.stringContaining('made in') as string });
    expect(git('status', '--short')).not.toContain('??');
  });

  test('a model.pt that replaces the traced one is added, too', async () => {
    rmSync(join(repository, 'scale', 'trace.py'));
    writeFileSync(join(repository, 'scale', '1', 'model.pt'), torchScript());
    await trace(repository);
    git('add', '--all');
    expect(git('ls-files', 'model-repo/scale')).toContain('model-repo/scale/1/model.pt\n');
    expect(git('ls-files', 'model-repo/scale')).not.toContain('.gitignore');
  });
});
