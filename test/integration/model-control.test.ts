import { Client, credentials } from '@grpc/grpc-js';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Root } from 'protobufjs';
import { processIds, readProcess } from '../../src/local/process/proc';
import { findLocalStack, type LocalState } from '../../src/local/state';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import protocol from '../../src/triton/protocol.json';
import { launchBrowser, whyNoBrowser } from '../support/browser';
import { describeUnless } from '../support/describe-unless';
import { LocalCommand, untilUp } from '../support/local-command';
import { openBucket } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

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
function loadOverGrpc(): Promise<string> {
  const type = Root.fromJSON(protocol).lookupType('inference.RepositoryModelLoadRequest');
  const parameters = { config: { string_param: CONFIG }, 'file:1/model.py': { bytes_param: Buffer.from(MODEL) } };
  const message = Buffer.from(type.encode(type.fromObject({ model_name: 'evil', parameters })).finish());
  const client = new Client(stack.grpcAddress, credentials.createInsecure());
  const path = '/inference.GRPCInferenceService/RepositoryModelLoad';
  const bytes = (given: Buffer): Buffer => given;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, bytes, bytes, message, (error) => {
      client.close();
      resolve(error?.details ?? '');
    });
  });
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

  describeUnless(whyNoBrowser(), 'from a page in a real browser', () => {
    test('are rejected; the model does not run', async () => {
      const site = createServer((_, answer) =>
        answer.setHeader('content-type', 'text/html').end('<title>evil</title>'),
      );
      await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
      scratch.defer(() => void site.close());
      const browser = await launchBrowser();
      scratch.defer(() => browser.close());
      const page = await browser.newPage();
      const statuses: number[] = [];
      page.on('response', (response) => {
        if (response.url().endsWith('/load')) statuses.push(response.status());
      });
      await page.goto(`http://localhost:${(site.address() as AddressInfo).port}`);
      await page.evaluate(
        `fetch(${JSON.stringify(`${stack.httpUrl}/v2/repository/models/evil/load`)}, {
          method: 'POST', mode: 'no-cors', body: ${JSON.stringify(LOAD)} })`,
      );
      await until('the browser has its answer', () => statuses.length > 0);
      expect(statuses).toEqual([403]);
      expect(existsSync(marker)).toBe(false);
    });
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
  const environments = getProcesses(command.directory).map((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8'));
  // The server and at least one model process.
  expect(environments.length).toBeGreaterThan(1);
  for (const environment of environments) expect(environment).not.toMatch(/of-the-user/);
});

/** Process ids of Triton's processes with this folder in their command line. */
function getProcesses(directory: string): number[] {
  return processIds().filter((pid) => {
    const words = readProcess(pid, 'cmdline') ?? '';
    return words.includes(directory) && /bin\/tritonserver|triton_python_backend_stub/.test(words);
  });
}
