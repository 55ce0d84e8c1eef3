import { statSync } from 'node:fs';
import { join } from 'node:path';
import { exportModels } from '../../src/model/export';
import { readRepository } from '../../src/model';
import { getMemory } from '../support/process-memory';
import { writeRepository } from '../support/repository';
import { runCommandLine, startCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

/** Takes minutes on a busy machine, and 2.5 GB of disk, which are freed afterwards. */
jest.setTimeout(1_800_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

const [TABLES, ROWS, WIDTH] = [5, 125_000, 1000];
const BYTES = TABLES * ROWS * WIDTH * 4;

/** The values in a row are the numbers of row and table added, so the expected answers are known. */
const TRACE = `import torch
from torch import nn
from tracing import OnnxExport, Weights


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        for table in range(${TABLES}):
            rows = torch.arange(${ROWS}, dtype=torch.float32)[:, None].expand(-1, ${WIDTH}) + table
            self.register_buffer(f"table{table}", rows.contiguous())

    def forward(self, ids):
        return sum(getattr(self, f"table{table}")[ids] for table in range(${TABLES}))


def export(context):
    model = Large().eval()

    def save(path):
        batch = torch.export.Dim("batch", min=1, max=4)
        names = {"input_names": ["ids"], "output_names": ["sums"], "dynamic_shapes": ({0: batch},)}
        torch.onnx.export(model, (torch.tensor([3, 5]),), path, dynamo=True, **names)

    return OnnxExport(
        eager=model,
        save=save,
        fresh_inputs=[(torch.tensor([0]),), (torch.tensor([1, 7, 60_000, ${ROWS - 1}]),)],
        tolerance=0,
        weights=Weights.none(),
    )
`;
const CONFIG = `platform: onnxruntime_onnx
max_batch_size: 4
input: [{ name: ids, data_type: TYPE_INT64, dims: [1], reshape: { shape: [] } }]
output: [{ name: sums, data_type: TYPE_FP32, dims: [${WIDTH}] }]
instance_group: [{ count: 1, kind: KIND_CPU }]
`;

test('trace, validate and Triton handle a model of 2.5 GB in less than twice its memory', async () => {
  const repository = join(scratch.directory, 'repository');
  writeRepository(repository, { 'large/model.yaml': CONFIG, 'large/trace.py': TRACE });

  const { child, ended } = startCommandLine('trace', ['--repo', repository]);
  let peak = 0;
  const sampling = setInterval(() => (peak = Math.max(peak, getMemory(child.pid ?? 0))), 500);
  const traced = await ended.finally(() => clearInterval(sampling));
  expect(traced).toMatchObject({ code: 0, stderr: expect.not.stringContaining('warning') as string });
  process.stderr.write(`trace of ${BYTES / 1e9} GB took ${(peak / 1e9).toFixed(1)} GB of memory\n`);
  expect(statSync(join(repository, 'large/1/model.onnx.data')).size).toBeGreaterThanOrEqual(BYTES);
  // The whole module was in memory, so sampling did not miss the peak by much.
  expect(peak).toBeGreaterThan(BYTES);
  expect(peak).toBeLessThan(2 * BYTES);

  expect(await runCommandLine('validate', ['--repo', repository])).toMatchObject({ code: 0 });

  const { models } = await readRepository(repository);
  // Exports hard links, so there is no second copy of the weights.
  await exportModels(models, join(scratch.directory, 'served'));
  const { client } = await testTriton(scratch, join(scratch.directory, 'served'));
  const last = BigInt(ROWS - 1);
  const ids = { name: 'ids', datatype: 'INT64', shape: [2, 1], data: BigInt64Array.of(9n, last) } as const;
  const [sums] = (await client.infer('large', [ids])).outputs;
  const right = [9, ROWS - 1].map((id) => TABLES * id + (TABLES * (TABLES - 1)) / 2);
  expect(sums).toEqual({
    ...{ name: 'sums', datatype: 'FP32', shape: [2, WIDTH] },
    data: Float32Array.from({ length: 2 * WIDTH }, (_, index) => right[index < WIDTH ? 0 : 1] ?? NaN),
  });
});
