import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { exec } from '../../src/core/exec';
import { findLocalStack } from '../../src/local/state';
import { FACE } from '../../src/local/sample-requests';
import { localDirectory } from '../../src/local/stack';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { paths } from '../../src/core/paths';
import { getAddress, LocalCommand, untilLocal, untilUp, pictureModels } from '../support/local-command';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
const { repository } = command;

afterAll(() => scratch.clean());

describe('--once', () => {
  // Models with pictures for the page, and a model that cannot be served on this machine.
  const more = {
    ...pictureModels(),
    'on_a_gpu/config.pbtxt':
      'platform: "tensorrt_plan"\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n',
  };
  let finished: Finished;
  beforeAll(async () => {
    writeRepository(repository, more);
    finished = await command.run(['--once', '--json']);
  });
  afterAll(() => {
    for (const path of Object.keys(more))
      rmSync(join(repository, path.split('/')[0] ?? ''), { recursive: true, force: true });
  });
  afterEach(() => command.expectNothingLeft());

  test('serves a repository, sends requests, and cleans up', () => {
    expect(finished).toMatchObject({ code: 0 });
    const { models, notServed, answers } = JSON.parse(finished.stdout) as Record<string, Record<string, unknown>[]>;
    expect(models?.map(({ model, version, platform, state }) => [model, version, platform, state])).toEqual([
      ['adds', '1', 'python', 'READY'],
      ['ens_face_restoration_v2.1', '1', 'ensemble', 'READY'],
      ['negative', '1', 'python', 'READY'],
      ['on_a_gpu', '', 'tensorrt_plan', 'not served here'],
      ['resnet', '1', 'python', 'READY'],
    ]);
    expect(notServed).toEqual([
      { model: 'on_a_gpu', reason: 'a TensorRT plan runs only on the GPU type that built it' },
    ]);
    expect(answers?.map(({ model, result }) => [model, result])).toEqual([
      ['adds', 'y FP32 [1]'],
      ['ens_face_restoration_v2.1', 'restored picture, 256 x 256'],
      ['negative', 'y UINT8 [1, 1, 3]'],
      ['resnet', 'highest "b <b>" (100.0 %)'],
    ]);
  });

  test('writes the picture of the request and that of the answer into its page', async () => {
    const text = readFileSync((JSON.parse(finished.stdout) as { page: string }).page, 'utf8');
    const pictures = [...text.matchAll(/src="data:image\/png;base64,(.*?)"/g)].map(([, data = '']) => data);
    const [sent, answered, classified] = await Promise.all(
      pictures.map((data) => sharp(Buffer.from(data, 'base64')).raw().toBuffer({ resolveWithObject: true })),
    );
    const face = await sharp(FACE).raw().toBuffer();
    expect(sent?.data.equals(face)).toBe(true);
    // The test's ensemble inverts each colour.
    expect(answered?.data.equals(face.map((value) => 255 - value))).toBe(true);
    expect([classified?.info.width, classified?.info.height]).toEqual([224, 224]);
  });
});

// These tests run at the same time, because they mostly wait for servers.

test.concurrent('npm run local runs until Ctrl-C and then exits with 0', async () => {
  const local = command.start();
  const { child, said, ended } = local;
  await untilUp(local);
  const http = getAddress(local, 'Triton HTTP');
  expect((await fetch(`${http}/v2/models/adds/ready`)).status).toBe(200);
  expect((await fetch(getAddress(local, 'Triton metrics'))).status).toBe(200);

  // The commands in the terminal work when they are pasted together.
  const printed = /Run in another terminal:\n\n(.*?)\n\nCtrl-C/s.exec(said())?.[1] ?? '';
  expect(printed.split('\n')).toHaveLength(2);
  const { stdout } = await exec('sh', ['-ec', printed], { cwd: paths.root });
  expect(stdout).toContain(`npm run infer -- adds x=FILE.npy --local --repo ${repository}\n`);
  expect(stdout).toMatch(/as released, READY +adds 1 /);

  // All other commands find the local stack without variables or addresses.
  expect(statSync(join(localDirectory(repository), 'state.json')).mode & 0o777).toBe(0o600);
  const onLocal = (name: string, ...flags: string[]): Promise<Finished> =>
    runCommandLine(name, ['--local', '--repo', repository, ...flags]);
  const [releases, synced, rolledBack, second] = await Promise.all([
    onLocal('releases'),
    onLocal('sync-models'),
    onLocal('rollback', '--dry-run'),
    command.run(['--once']),
  ]);
  expect(releases).toMatchObject({ code: 0, stdout: expect.stringContaining('adds') as string });
  expect(synced).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/Nothing to publish.*Every replica serves it/) as string,
  });
  // The release of the first test still exists, with models that are no longer served.
  expect(rolledBack).toMatchObject({ code: 0, stdout: expect.stringContaining('negative') as string });
  expect(second).toMatchObject({ code: 1, stderr: expect.stringMatching(/is in use by process \d+/) as string });

  // npm and the terminal may both send SIGINT. Two signals still end the command in order.
  child.kill('SIGINT');
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  await expect(fetch(`${http}/v2/health/live`)).rejects.toThrow();
  expect(await onLocal('status')).toMatchObject({ code: 1, stderr: expect.stringMatching(NOT_RUNNING) as string });
  command.expectNothingLeft();
});

const NOT_RUNNING = /--local: "npm run local" (is not running|does not serve .*)\n {2}-> .*npm run local -- --repo /;

test.concurrent('npm run local stops all processes if interrupted while the server starts', async () => {
  const own = new LocalCommand(scratch, 'interrupted');
  const local = own.start();
  const { child, said, ended } = local;
  await untilLocal(local, () => own.processes().some((line) => line.includes('bin/tritonserver')));
  child.kill('SIGTERM');
  expect(await ended).toBe(130);
  expect(said()).not.toMatch(/\n\s+at |FAIL/);
  own.expectNothingLeft();
});

test.concurrent('npm run local serves only the selected models, not those that an earlier run published', async () => {
  const own = new LocalCommand(scratch, 'selected');
  writeRepository(own.repository, addingModel('adds_too', { 1: 1 }));
  expect(await own.run(['--once'])).toMatchObject({ code: 0 });
  const local = own.start('--models', 'adds');
  const { child, ended } = local;
  await untilUp(local);
  expect(local.said()).toMatch(/adds_too of an earlier run are removed from the local release; a rollback restores/);
  const { modelControlKey: key } = findLocalStack(own.repository);
  const index = await fetch(`${getAddress(local, 'Triton HTTP')}/v2/repository/index`, {
    method: 'POST',
    headers: { [CONTROL_HEADER]: key },
  });
  const models = (await index.json()) as { name: string; state?: string }[];
  expect(models.filter(({ state }) => state === 'READY').map(({ name }) => name)).toEqual(['adds']);
  const { code, stdout } = await runCommandLine('status', ['--local', '--repo', own.repository]);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.not.stringContaining('adds_too') as string });
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  own.expectNothingLeft();
});

test.concurrent('npm run local leaves no servers when killed, and the next run cleans up and works', async () => {
  const own = new LocalCommand(scratch, 'killed');
  const local = own.start();
  const { child, ended } = local;
  await untilUp(local);
  child.kill('SIGKILL');
  await ended;
  expect(() => findLocalStack(own.repository)).toThrow(/--local: "npm run local" (is not running|does not serve)/);
  await until('its servers ended', () => own.processes().length === 0);
  expect(await own.run(['--once'])).toMatchObject({ code: 0 });
  own.expectNothingLeft();
});
