import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIds, readProcess } from '../../src/local/process/proc';
import { getAddress, LocalCommand, untilUp, type RunningLocal } from '../support/local-command';
import { askOne } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
const { repository } = command;

afterAll(() => command.expectNothingLeft());
afterAll(() => scratch.clean());

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

  test('infer lists the models to name the one that was meant', async () => {
    expect((await withLocal('infer', 'add')).stderr).toMatch(/unknown model: 'add' .*\n {2}-> did you mean "adds"\?/);
    expect((await withLocal('infer', 'adds', '--version', '9')).stderr).toMatch(/-> ready versions of adds: 1\b/);
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
});
