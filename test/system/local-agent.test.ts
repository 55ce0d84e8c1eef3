import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIds, readProcess } from '../../src/local/process/proc';
import { getAddress, LocalCommand, untilLocal, untilUp, type RunningLocal } from '../support/local-command';
import { addingModel, askOne, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
const { repository } = command;

afterAll(() => command.expectNothingLeft());
afterAll(() => scratch.clean());

const BROKEN = 'raise RuntimeError("no weights")\n';

let local: RunningLocal;

/** The answer of the model `adds` to 1. */
const ask = (): Promise<unknown> => askOne(getAddress(local, 'Triton HTTP'));

const withLocal = (name: string, ...flags: string[]): Promise<Finished> =>
  runCommandLine(name, ['--local', '--repo', repository, ...flags]);

interface Status {
  release: string;
  asReleased: boolean;
  replicas: { agent: { release: string; ready: boolean } }[];
}

async function getStatus(): Promise<Status> {
  return JSON.parse((await withLocal('status', '--json')).stdout) as Status;
}

/** Processes of this stack that run a program directly, not through a shell or Python. */
const pidsOf = (program: RegExp): number[] =>
  processIds().filter((pid) => {
    const [first = '', ...args] = readProcess(pid, 'cmdline')?.split('\0') ?? [];
    return program.test(first) && args.some((arg) => arg.includes(command.directory));
  });
const getAgent = (): number[] => pidsOf(/\/node$/);
const getTriton = (): number[] => pidsOf(/\/tritonserver$/);

/** Returns when another process of the program runs, and `adds` of the release answers again. */
async function untilServedAgain(getPids: () => number[], former: readonly number[], release: string): Promise<void> {
  await until('another process runs', () => getPids().some((pid) => !former.includes(pid)));
  await until('it serves the release', async () => {
    // Until the agent has noticed, it reports what the ended server served.
    if ((await ask()) !== 11) return false;
    const { asReleased, replicas } = await getStatus();
    return asReleased && replicas[0]?.agent.release === release && replicas[0].agent.ready;
  });
}

describe('the release agent of npm run local', () => {
  test('serves models through the agent of pods, and Triton has no keys of the bucket', async () => {
    local = command.start('--no-watch');
    await untilUp(local);
    expect(await ask()).toBe(11);
    expect(await (await fetch(`${getAddress(local, 'Release agent')}/v1/state`)).json()).toMatchObject({
      ready: true,
      repository: 's3://models/local',
      models: [{ name: 'adds', versions: [1], asked: 'zeros' }],
    });
    const [agent = 0] = getAgent();
    const [triton = 0] = getTriton();
    expect(readProcess(agent, 'environ')).toContain('AWS_SECRET_ACCESS_KEY');
    expect(readProcess(triton, 'environ')).not.toContain('AWS_SECRET_ACCESS_KEY');
    expect(readProcess(triton, 'cmdline')).toContain(`--model-repository=${join(command.directory, 'agent')}`);
  });

  test('sync-models publishes a new version through the agent, and status shows its release', async () => {
    writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
    expect(await withLocal('sync-models')).toMatchObject({ code: 0 });
    expect(await ask()).toBe(21);
    const { release, asReleased, replicas } = await getStatus();
    expect({ asReleased, served: replicas[0]?.agent.release }).toEqual({ asReleased: true, served: release });
    const { stdout } = await withLocal('status', '--ask');
    expect(stdout).toMatch(/adds +2 +READY +as released/);
    expect(stdout).toMatch(/adds +ok +answered zeros/);
  });

  test('a release with a model that cannot be loaded is refused, and the former one stays served', async () => {
    const { release } = await getStatus();
    writeRepository(repository, { ...addingModel('adds', { 1: 10, 2: 20, 3: 30 }), 'adds/3/model.py': BROKEN });
    const refused = await withLocal('sync-models');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('no weights') as string });
    expect(await ask()).toBe(21);
    expect(await getStatus()).toMatchObject({ release, asReleased: true });
  });

  test('rollback restores the former release through the agent', async () => {
    expect(await withLocal('rollback')).toMatchObject({ code: 0 });
    expect(await ask()).toBe(11);
    expect(await getStatus()).toMatchObject({ asReleased: true });
    expect((await withLocal('releases')).stdout).toMatch(/rollback to/);
  });

  test('a killed agent and a killed Triton start again and serve the same release', async () => {
    const { release } = await getStatus();
    const agent = getAgent();
    expect(agent).toHaveLength(1);
    agent.forEach((pid) => process.kill(pid, 'SIGKILL'));
    await untilServedAgain(getAgent, agent, release);
    const triton = getTriton();
    expect(triton).toHaveLength(1);
    triton.forEach((pid) => process.kill(pid, 'SIGKILL'));
    await untilServedAgain(getTriton, triton, release);
    expect(local.child.exitCode).toBe(null);
    const log = readFileSync(join(command.directory, 'triton', 'triton.log'), 'utf8');
    expect(log).toContain('"event":"tritonserver ended","code":137');
  });

  test('a Triton that the agent has restarted serves the same release', async () => {
    const { release } = await getStatus();
    const triton = getTriton();
    writeFileSync(join(command.directory, 'agent', 'restart-triton'), 'a request\n');
    await untilServedAgain(getTriton, triton, release);
  });

  test('Ctrl-C stops all processes', async () => {
    local.child.kill('SIGINT');
    expect(await local.ended).toBe(0);
    expect(command.processes()).toEqual([]);
  });

  test('an edited file is published as a release, and a release that is refused leaves the former one served', async () => {
    rmSync(join(repository, 'adds'), { recursive: true });
    writeRepository(repository, addingModel('adds', { 1: 10 }));
    local = command.start();
    await untilUp(local);
    expect(await ask()).toBe(11);
    writeRepository(repository, addingModel('adds', { 1: 40 }));
    await untilLocal(local, () => local.said().includes('adds is served with the changed files'));
    expect(await ask()).toBe(41);
    const { release } = await getStatus();
    writeRepository(repository, { 'adds/1/model.py': BROKEN });
    await untilLocal(local, () => local.said().includes('FAIL adds: the previous version is served'));
    expect(local.said()).toMatch(/Triton cannot load adds: .*no weights \(adds\/1\/model\.py, line 1/);
    expect(await ask()).toBe(41);
    expect(await getStatus()).toMatchObject({ release, asReleased: true });
  });

  test('no process stays after the command was killed', async () => {
    local.child.kill('SIGKILL');
    await local.ended;
    await until('its processes ended', () => command.processes().length === 0);
  });

  test('a start with a bad model serves the others', async () => {
    writeRepository(repository, addingModel('adds', { 1: 10 }));
    writeRepository(repository, { ...addingModel('breaks', { 1: 5 }), 'breaks/1/model.py': BROKEN });
    const refused = await command.run(['--once']);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/FAIL breaks: .*\n.*Triton cannot load breaks: /) as string,
      stdout: expect.stringMatching(/adds +1 +python +READY/) as string,
    });
    writeRepository(repository, addingModel('more', { 1: 6 }));
    const { code, stdout } = await command.run(['--once', '--json', '--exclude', 'breaks']);
    expect(code).toBe(0);
    const { models, endpoints } = JSON.parse(stdout) as { models: object[]; endpoints: object };
    expect(models).toMatchObject(['adds', 'more'].map((model) => ({ model, state: 'READY' })));
    expect(endpoints).toMatchObject({ agent: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string });
    // A model that is not valid is left out. A model that is not selected is not loaded.
    writeRepository(repository, { 'breaks/config.pbtxt': 'backend: "python"\nmax_batch_size: -1\n' });
    const invalid = await command.run(['--once', '--models', 'adds,breaks']);
    expect(invalid).toMatchObject({ code: 1, stdout: expect.stringMatching(/adds +1 +python +READY/) as string });
    expect(invalid.stdout).toMatch(/breaks +FAILED: max_batch_size/);
    expect(invalid.stderr).toContain('more of an earlier run are removed from the local release');
    expect(readFileSync(join(command.directory, 'agent.log'), 'utf8')).not.toContain('"model":"more"');
  });
});
