import { execFile } from 'node:child_process';
import { copyFileSync, cpSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Progress } from '../../src/cli/progress';
import { paths } from '../../src/core/paths';
import { ensurePython } from '../../src/local/install/python';
import { FREE_PORTS, LocalCommand } from '../support/local-command';
import { modelYaml } from '../support/model-files';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
afterAll(() => scratch.clean());
afterEach(() => command.expectNothingLeft());

const CONFIG = modelYaml({
  platform: 'torch_aoti',
  input: [{ name: 'INPUT__0', data_type: 'TYPE_FP32', dims: [-1] }],
  output: [{ name: 'OUTPUT__0', data_type: 'TYPE_FP32', dims: [-1] }],
  dynamic_batching: {},
});
const TRACE = `import torch
from torch import nn
from tracing import ProgramExport, Weights

class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

def export(context):
    return ProgramExport(eager=Doubled(), example_inputs=(torch.rand(2, 3),), tolerance=0, weights=Weights.none(),
                         fresh_inputs=[(torch.rand(*shape),) for shape in [(1, 1), (8, 5)]])
`;
const COMPILE = `import sys, torch
torch._inductor.aoti_compile_and_package(torch.export.load(sys.argv[1]), package_path=sys.argv[2])
`;

test('npm run local serves a program as it was exported, and compiled for this machine', async () => {
  const folder = writeRepository(join(scratch.directory, 'models'), { 'm/model.yaml': CONFIG, 'm/trace.py': TRACE });
  const asExported = await command.run(['--repo', folder, '--once', ...FREE_PORTS]);
  expect(asExported).toMatchObject({ code: 0, stdout: expect.stringMatching(/^m +1 +torch_aoti +READY/m) as string });
  const answers = /^m +\d+ ms +golden request 1\/traced-0: as expected$/m;
  expect(asExported.stdout).toMatch(answers);

  const { python } = await ensurePython(new Progress().step('python'), { development: true });
  const compiled = join(scratch.directory, 'model.pt2');
  await promisify(execFile)(python, ['-c', COMPILE, join(folder, 'm/1/model.pt2'), compiled], { cwd: paths.python });
  const other = writeRepository(join(scratch.directory, 'compiled'), { 'm/model.yaml': CONFIG, 'm/1/.keep': '' });
  copyFileSync(compiled, join(other, 'm/1/model.pt2'));
  cpSync(join(folder, 'm/golden'), join(other, 'm/golden'), { recursive: true });
  const asCompiled = await command.run(['--repo', other, '--once', ...FREE_PORTS]);
  expect(asCompiled).toMatchObject({ code: 0, stdout: expect.stringMatching(/^m +1 +torch_aoti +READY/m) as string });
  expect(asCompiled.stdout).toMatch(answers);
});
