import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TritonServerArgs } from '../../../../infra/triton/server';
import { render } from '../../../support/render';
import { Scratch } from '../../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A PATH without the nvidia-smi of this machine. */
const tools = join(scratch.directory, 'tools');
/** The volume of the models. */
const volume = join(scratch.directory, 'volume');

beforeAll(() => {
  mkdirSync(tools);
  for (const name of ['cat', 'find', 'grep', 'sleep', 'tr']) {
    symlinkSync(execFileSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim(), join(tools, name));
  }
  mkdirSync(join(volume, 'models'), { recursive: true });
});

interface Smi {
  says: string[];
  code?: number;
}

const gpu = (index: number): string => `GPU ${index}: NVIDIA A10G (UUID: GPU-0f0f-${index})`;
const mig = (index: number): string => `  MIG 1g.5gb      Device  ${index}: (UUID: MIG-0f0f-${index})`;
/** The answer of nvidia-smi if the driver is not loaded. */
const NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";

let runs = 0;

/** Runs the command of the container, with a program in the place of Triton. */
async function start(smi: Smi | undefined, args: Partial<TritonServerArgs>): Promise<{ code: number; said: string }> {
  const folder = join(scratch.directory, `run-${++runs}`);
  mkdirSync(folder);
  if (smi !== undefined) {
    writeFileSync(join(folder, 'answer'), smi.says.map((line) => `${line}\n`).join(''));
    const script = `[ "$*" = --list-gpus ] || exit 2\ncat "${folder}/answer"\nexit ${smi.code ?? 0}\n`;
    writeFileSync(join(folder, 'nvidia-smi'), `#!/bin/sh\n${script}`, { mode: 0o755 });
  }
  writeFileSync(join(volume, 'control-key'), 'key');
  const { only } = await render(args);
  const { spec } = (
    only('Deployment')['spec'] as { template: { spec: { containers: [{ command: [string, ...string[]] }] } } }
  ).template;
  const [shell, ...rest] = spec.containers[0].command;
  const { status, stdout, stderr } = spawnSync(
    shell,
    [...rest.map((argument) => argument.replace('/var/cache/triton', volume)), '/bin/echo', 'Triton starts'],
    { encoding: 'utf8', env: { PATH: `${folder}:${tools}` } },
  );
  return { code: status ?? -1, said: stdout + stderr };
}

const SEE = 'see docs/runbook.md#tritongpumissing\n';
const STARTS = 'Triton starts\n';

test.each<[string, Smi | undefined, Partial<TritonServerArgs>, number, string]>([
  ['starts with the GPU of the pod', { says: [gpu(0)] }, {}, 0, STARTS],
  ['starts with more GPUs', { says: [gpu(0), gpu(1)] }, {}, 0, STARTS],
  ['starts with a MIG device', { says: [gpu(0), mig(0)] }, {}, 0, STARTS],
  [
    'starts with MIG devices of one GPU',
    { says: [gpu(0), mig(0), mig(1)] },
    { gpusPerPod: 2, sharedGpus: false },
    0,
    STARTS,
  ],
  ['starts without GPUs if the pod has none', { says: [], code: 9 }, { gpusPerPod: 0 }, 0, STARTS],
  [
    'fails if the driver is not loaded',
    { says: [NO_DRIVER, 'Install the driver.'], code: 9 },
    {},
    1,
    `This container sees 0 of 1 GPUs: ${NO_DRIVER} Install the driver.; ${SEE}`,
  ],
  ['fails without a GPU', { says: [] }, {}, 1, `This container sees 0 of 1 GPUs: nvidia-smi lists none; ${SEE}`],
  [
    'fails if a GPU is missing',
    { says: [gpu(0)] },
    { gpusPerPod: 2, sharedGpus: false },
    1,
    `This container sees 1 of 2 GPUs: ${gpu(0)}; ${SEE}`,
  ],
  [
    'only warns if two slices may be of one GPU',
    { says: [gpu(0)] },
    { gpusPerPod: 2 },
    0,
    `${STARTS}This container sees 1 of 2 GPUs: ${gpu(0)}; ${SEE}`,
  ],
  [
    'only warns without nvidia-smi',
    undefined,
    {},
    0,
    `${STARTS}Cannot count the GPUs of this container, which should be 1: it has no nvidia-smi; ${SEE}`,
  ],
])('Triton %s', async (_title, smi, args, code, said) => {
  expect(await start(smi, args)).toEqual({ code, said });
});
