import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { agentProgram } from '../../infra/triton/agent/program';
import { KEY_FILE } from '../../src/agent/pod-files';
import { freePorts } from '../../src/local/process/ports';
import type { AgentState } from '../../src/release/agent-api';
import { ReleaseWriter, TestAgent } from '../support/agent';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { TEST_CONTROL_KEY } from '../support/triton';
import { until } from '../support/wait-for';

/** The program of the agent's ConfigMap. */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const program = join(scratch.directory, 'agent.cjs');

let endpoint: string;
let directory: string;
let triton: TestAgent['triton'];
let releases: ReleaseWriter;
let port: number;
let controlPort: number;

beforeAll(async () => {
  writeFileSync(program, agentProgram()['agent.cjs']);
  ({ endpoint } = await testS3(scratch));
  const store = await openBucket(scratch, endpoint, 'program');
  releases = new ReleaseWriter(store);
  ({ directory, triton } = await TestAgent.create(scratch, 'pod'));
  [port = 0, controlPort = 0] = await freePorts(2);
}, 300_000);

function start(): ChildProcess {
  const flags = {
    bucket: 's3://program/models',
    directory,
    host: '127.0.0.1',
    triton: triton.httpUrl,
    port: String(port),
    'control-port': String(controlPort),
  };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  const env = { ...process.env, ...S3_ENVIRONMENT, AWS_ENDPOINT_URL: endpoint };
  const child = spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  scratch.defer(() => void child.kill('SIGKILL'));
  return child;
}

async function getState(): Promise<AgentState> {
  return (await (await fetch(`http://127.0.0.1:${port}/state`)).json()) as AgentState;
}

test('the program makes a key before Triton starts, and keeps it', async () => {
  const own = join(scratch.directory, 'new-pod');
  const child = spawn(
    process.execPath,
    [program, '--bucket', 's3://program/models', '--directory', own, '--port', '0', '--control-port', '0'],
    { stdio: 'ignore' },
  );
  scratch.defer(() => void child.kill('SIGKILL'));
  await until('there is a key', () => existsSync(join(own, KEY_FILE)));
});

test('it serves head, also after it was killed, and leaves Triton alone when it ends', async () => {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, KEY_FILE), TEST_CONTROL_KEY);
  const release = await releases.write({ a: { served: [1], files: { '1/weights': 'A' } } });
  await releases.commit(release);
  const first = start();
  await until('it serves the release', async () => (await getState()).release === release.id);
  first.kill('SIGKILL');
  await once(first, 'exit');
  const second = start();
  await until(
    'it serves the release again',
    async () => (await getState().catch(() => undefined))?.release === release.id,
  );
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  for (const line of [
    'triton_agent_serves_head 1',
    'triton_agent_head_generation 1',
    'triton_agent_trial_active 0',
    'triton_agent_disk_bytes 1',
    // The files are still there, and Triton still serves them.
    'triton_agent_download_bytes_total 0',
    'triton_agent_loads_total{result="ok"} 0',
    `triton_agent_release_info{release="${release.id}",home="${release.id}"} 1`,
  ]) {
    expect(metrics.split('\n')).toContain(line);
  }
  expect(metrics).toMatch(/^triton_agent_start_seconds\{phase="total"\} /m);
  expect(metrics).toMatch(/^triton_agent_last_head_read_timestamp_seconds \d/m);
  second.kill('SIGTERM');
  expect(await once(second, 'exit')).toEqual([0, null]);
  expect(await triton.client.modelReady('a', 1)).toBe(true);
});
