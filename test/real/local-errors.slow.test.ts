import { createServer } from 'node:net';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensurePython } from '../../src/local/install/python';
import { LocalCommand } from '../support/local-command';
import { listenOnLoopback } from '../support/loopback';
import { modelYaml } from '../support/model-files';
import { addingEnsemble, addingModel, answeringProgram, writeRepository } from '../support/repository';
import type { Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);

afterAll(() => scratch.clean());
afterEach(() => command.expectNothingLeft());

describe('npm run local reports an error and starts nothing', () => {
  let busy: number;
  beforeAll(async () => {
    const { port, stop } = await listenOnLoopback(createServer());
    scratch.defer(stop);
    busy = port;
  });

  test('for a port in use, with the flag for another port', async () => {
    const finished = await command.run(['--once', '--grpc-port', String(busy)]);
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain(`port ${busy} (--grpc-port) is in use\n`);
    expect(finished.stderr).not.toContain('stop the servers');
  });

  test('without Python', async () => {
    const finished = await command.run(['--once'], {
      PATH: scratch.directory,
    });
    expect(finished).toMatchObject({ code: 1, stderr: expect.stringContaining('no Python found on PATH') as string });
  });

  test('for a cache folder that is not writable', async () => {
    const finished = await command.run(['--once'], {
      XDG_CACHE_HOME: '/dev/null',
    });
    expect(finished.code).toBe(1);
    expect(finished.stderr).toMatch(/^error: cannot write \/dev\/null\//);
    expect(finished.stderr).toContain('XDG_CACHE_HOME');
  });

  test('for a set-up without a network', async () => {
    const nowhere = 'http://127.0.0.1:9/simple';
    const finished = await command.run(['--once'], {
      XDG_CACHE_HOME: join(scratch.directory, 'empty-cache'),
      PIP_INDEX_URL: nowhere,
      PIP_RETRIES: '0',
      UV_DEFAULT_INDEX: nowhere,
      UV_HTTP_RETRIES: '0',
    });
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain('error: cannot install the Python packages: ');
    expect(finished.stderr).toContain('HTTPS_PROXY');
  });

  test('for a repository without models that this machine can serve', async () => {
    const finished = await command.run(['--repo', paths.modelRepository, '--models', 'wav2vec_general_v1', '--once']);
    expect(finished).toMatchObject({ code: 1, stderr: expect.stringContaining('TensorRT plan') as string });
  });
});

/** Each model fails in its own way; its reason is in the line of the result. */
const INVALID: { what: string; name: string; files: Record<string, string>; reason: string }[] = [
  {
    what: 'invalid YAML',
    name: 'yaml',
    files: { 'yaml/model.yaml': 'backend: [python\n', 'yaml/1/model.py': 'x = 1\n' },
    reason: 'not valid YAML',
  },
  {
    what: 'an unknown field',
    name: 'field',
    files: { 'field/model.yaml': 'backend: python\nmax_batchsize: 1\n', 'field/1/model.py': 'x = 1\n' },
    reason: 'max_batchsize: unknown field',
  },
  {
    what: 'a trace.py that raises',
    name: 'raises',
    files: { 'raises/model.yaml': modelYaml(), 'raises/trace.py': 'raise ValueError("no weights here")\n' },
    reason: 'no weights here',
  },
  { what: 'a step that does not exist', name: 'lonely', files: addingEnsemble('lonely', 'absent'), reason: 'absent' },
  {
    what: 'a step that failed',
    name: 'needs',
    files: addingEnsemble('needs', 'field'),
    reason: 'needs field, which failed',
  },
];

const INVALID_FILES = Object.fromEntries(INVALID.flatMap(({ files }) => Object.entries(files)));

describe('npm run local with invalid models serves the others', () => {
  const invalid = join(scratch.directory, 'invalid');
  let once: Finished;

  beforeAll(async () => {
    writeRepository(invalid, { ...addingModel('adds', { 1: 10 }), ...INVALID_FILES });
    command.getDirectory(invalid);
    once = await command.run(['--repo', invalid, '--once']);
  });

  test('npm run local --once exits with 1 after it asked the others', () => {
    expect(once.stdout).toMatch(/adds +1 +python +READY/);
    expect(once.stdout).toMatch(/adds +\d\S* \S+ +y FP32/);
    expect(once.stderr).toContain('error: cannot serve every model\n');
    expect(once.code).toBe(1);
  });

  test.each(INVALID)('$what: $name is FAILED with the reason', ({ name, reason }) => {
    expect(once.stdout).toMatch(new RegExp(`^${name} +.* FAILED: `, 'm'));
    expect(once.stdout).toMatch(new RegExp(`^${name} FAILED: .*${reason}`, 'm'));
    expect(once.stderr).toMatch(new RegExp(`^  .*\\b${name}\\b.*${reason}`, 'm'));
  });
});

test('npm run local names every reason if no model can be served', async () => {
  const none = join(scratch.directory, 'none');
  writeRepository(none, INVALID_FILES);
  command.getDirectory(none);
  const { code, stderr } = await command.run(['--repo', none]);
  expect(code).toBe(1);
  expect(stderr).toContain('error: cannot serve any model\n');
  for (const { reason } of INVALID) expect(stderr).toContain(reason);
});

const TRAINING = `
import sys, torch
from torch import nn

norms = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
torch.jit.script(norms).save(f"{sys.argv[1]}/norms/1/model.pt")
`;

test('npm run local refuses TorchScript in training mode, and does not ask a decoupled model', async () => {
  const io =
    'input { name: "input__0" data_type: TYPE_FP32 dims: [4] } output { name: "output__0" data_type: TYPE_FP32 dims: [4] }';
  const repository = writeRepository(join(scratch.directory, 'training'), {
    'norms/config.pbtxt': `platform: "pytorch_libtorch" max_batch_size: 8 ${io}`,
    'norms/1/model.pt': '',
    'streams/config.pbtxt': `backend: "python" model_transaction_policy { decoupled: true } ${io}`,
    'streams/1/model.py': answeringProgram('input__0', 'output__0', 'x'),
  });
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  await exec(python, ['-c', TRAINING, repository]);
  command.getDirectory(repository);
  const { code, stdout, stderr } = await command.run(['--repo', repository, '--once']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/norms\/1\/model\.pt: was saved in training mode/);
  expect(stdout).toMatch(/streams +\S+ \S+ +was not asked: it is decoupled/);
  expect(stdout).not.toContain('add golden requests');
});
