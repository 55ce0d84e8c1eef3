import { modelYaml } from './model-files';
import { addingModel } from './repository';

/** A model whose program waits forever in one of its methods. */
export const hanging = (
  name: string,
  method: 'initialize(self, args)' | 'execute(self, requests)',
): Record<string, string> => ({
  ...addingModel(name, { 1: 1 }),
  [`${name}/1/model.py`]: `import time
class TritonPythonModel:
    def execute(self, requests):
        return []
    def ${method}:
        time.sleep(10**6)
`,
});

/** A model whose trace waits for a file, and that mixes the rows of large batches, which only the thorough check finds. */
export const mixing = (name: string, file: string): Record<string, string> => ({
  [`${name}/model.yaml`]: `platform: pytorch_libtorch
max_batch_size: 8
input: [{ name: input__0, data_type: TYPE_FP32, dims: [3] }]
output: [{ name: output__0, data_type: TYPE_FP32, dims: [3] }]
`,
  [`${name}/trace.py`]: `import time
from pathlib import Path

import torch
from torch import nn
from tracing import TorchScriptExport, Weights


class Mix(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=0) if len(x) > 4 else x + 1


def export(context):
    while not Path("${file}").exists():
        time.sleep(0.2)
    return TorchScriptExport(
        eager=Mix(),
        example_inputs=None,
        fresh_inputs=[(torch.rand(1, 3),), (torch.rand(2, 3),), (torch.rand(8, 3),)],
        tolerance=1e-5,
        weights=Weights.none(),
    )
`,
});

/** A program of torch.export that multiplies by a factor. */
export const scaling = (name: string, factor: number): Record<string, string> => ({
  [`${name}/model.yaml`]: modelYaml({
    platform: 'torch_aoti',
    input: [{ name: 'INPUT__0', data_type: 'TYPE_FP32', dims: [-1] }],
    output: [{ name: 'OUTPUT__0', data_type: 'TYPE_FP32', dims: [-1] }],
    dynamic_batching: {},
  }),
  [`${name}/trace.py`]: `import torch
from torch import nn
from tracing import ProgramExport, Weights

class Scaled(nn.Module):
    def forward(self, x):
        return x * ${factor}

def export(context):
    return ProgramExport(eager=Scaled(), example_inputs=(torch.rand(2, 3),), tolerance=0, weights=Weights.none(),
                         fresh_inputs=[(torch.rand(*shape),) for shape in [(1, 1), (8, 5)]])
`,
});
