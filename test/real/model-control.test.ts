import { existsSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { Root } from 'protobufjs';
import { findLocalStack, type LocalState } from '../../src/local/state';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { LocalCommand, untilUp } from '../support/local-command';
import { runCommandLine } from '../support/run';
import { callGrpc } from '../support/grpc';
import { findProcesses } from '../support/processes';
import { openBucket } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
const command = new LocalCommand(scratch);
/** File that the attacker's model writes when it is loaded. */
const marker = join(scratch.directory, 'written-by-the-model');
let stack: LocalState;

beforeAll(async () => {
  const local = command.start({ GITHUB_TOKEN: 'a-secret-of-the-user', AWS_PROFILE: 'a-profile-of-the-user' });
  scratch.defer(async () => {
    local.child.kill('SIGINT');
    await local.ended;
  });
  await untilUp(local);
  stack = findLocalStack(command.repository);
});
afterAll(() => scratch.clean());
afterEach(() => rmSync(marker, { force: true }));

const MODEL = `open(${JSON.stringify(marker)}, "w").close()
class TritonPythonModel:
    def execute(self, requests):
        return []
`;
const CONFIG = JSON.stringify({
  backend: 'python',
  input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [1] }],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [1] }],
});

/** A load request that contains its model. */
const LOAD = JSON.stringify({
  parameters: { config: CONFIG, 'file:1/model.py': Buffer.from(MODEL).toString('base64') },
});

/** Sends a request like a page of evil.example in a browser: no preflight, and a foreign host due to DNS rebinding. */
function fromAPage(path: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  const page = {
    host: 'evil.example:8000',
    origin: 'http://evil.example:8000',
    'content-type': 'text/plain;charset=UTF-8',
    'sec-fetch-site': 'cross-site',
    'sec-fetch-mode': 'no-cors',
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${stack.httpUrl}${path}`, { method: 'POST', headers: { ...page, ...headers } }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode));
    });
    sent.once('error', reject).end(LOAD);
  });
}

/** Sends the same load request over gRPC. @returns the error of the server */
async function loadOverGrpc(): Promise<string> {
  const type = Root.fromJSON({
    nested: {
      Load: {
        fields: {
          model_name: { type: 'string', id: 2 },
          // A map, as it is sent.
          parameters: { rule: 'repeated', type: 'Entry', id: 3 },
        },
      },
      Entry: { fields: { key: { type: 'string', id: 1 }, value: { type: 'Parameter', id: 2 } } },
      Parameter: { fields: { string_param: { type: 'string', id: 3 }, bytes_param: { type: 'bytes', id: 4 } } },
    },
  }).lookupType('Load');
  const parameters = [
    { key: 'config', value: { string_param: CONFIG } },
    { key: 'file:1/model.py', value: { bytes_param: Buffer.from(MODEL) } },
  ];
  const message = Buffer.from(type.encode({ model_name: 'evil', parameters }).finish());
  return (
    (await callGrpc(stack.grpcAddress, '/inference.GRPCInferenceService/RepositoryModelLoad', message))?.details ?? ''
  );
}

describe('load requests that contain a model, to the server of npm run local', () => {
  test('are rejected over HTTP from a page of another origin; the model does not run', async () => {
    expect(await fromAPage('/v2/repository/models/evil/load')).toBe(403);
    expect(await fromAPage('/v2/repository/index')).toBe(403);
    expect(existsSync(marker)).toBe(false);
  });

  test('are rejected over gRPC; the model does not run', async () => {
    expect(await loadOverGrpc()).toMatch(/restricted/);
    expect(existsSync(marker)).toBe(false);
  });

  test('are accepted with the key, so the key protects', async () => {
    const key = { [CONTROL_HEADER]: stack.modelControlKey };
    expect(await fromAPage('/v2/repository/models/evil/load', key)).toBe(200);
    expect(existsSync(marker)).toBe(true);
  });
});

describe('uploads to the bucket from which Triton of npm run local loads models', () => {
  test('are rejected with the public keys of test servers', async () => {
    const store = await openBucket(scratch, stack.endpointUrl, 'local', { create: false });
    await expect(store.putBytes('models/adds/1/model.py', Buffer.from(MODEL))).rejects.toThrow(/SignatureDoesNotMatch/);
  });
});

test('model code gets no environment variables that may be secret', () => {
  const processes = findProcesses(/\/(tritonserver|triton_python_backend_stub)$/, command.directory);
  const environments = processes.map((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8'));
  // The server and at least one model process.
  expect(environments.length).toBeGreaterThan(1);
  for (const environment of environments) expect(environment).not.toMatch(/of-the-user|AWS_SECRET_ACCESS_KEY/);
});

test('infer --local uses the key to list the models, and names the one that was meant', async () => {
  const infer = (...words: string[]) => runCommandLine('infer', ['--local', '--repo', command.repository, ...words]);
  expect((await infer('add')).stderr).toMatch(/unknown model: 'add' .*\n {2}-> did you mean "adds"\?/);
  expect((await infer('adds', '--version', '9')).stderr).toMatch(/-> ready versions of adds: 1\b/);
});
