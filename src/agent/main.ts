import { EXIT } from '../cli/cli';
import { command } from '../cli/command';
import { UsageError } from '../core/errors';
import { parseLocation } from '../release/location';
import { S3Store } from '../s3/store';
import { ControlClient, defaultGrpcAddress } from '../triton/control-client';
import { Agent, CLIENT_OPTIONS } from './agent';
import { startControlApi, startReadOnlyApi } from './control-api';
import { KEY_FILE, readKey } from './pod-files';

const FLAGS = {
  bucket: { value: 's3://NAME/PREFIX', help: 'the model repository' },
  directory: {
    value: 'DIR',
    help: `the agent's disk; Triton reads DIR/models, and its control key is in DIR/${KEY_FILE}`,
  },
  triton: { value: 'URL', default: 'http://127.0.0.1:8000', help: 'the HTTP API of the server' },
  grpc: {
    value: 'HOST:PORT',
    help: 'its gRPC API (default for port 8000: port 8001). Without it models are loaded over HTTP, and requests on connections of the same thread wait for each load',
  },
  'control-port': { value: 'PORT', default: '8090', help: 'for publishers, on loopback' },
  port: { value: 'PORT', default: '8091', help: 'for state and metrics' },
  host: { value: 'ADDRESS', default: '0.0.0.0', help: 'where --port is opened (every address of the pod)' },
  'disk-bytes': {
    value: 'COUNT',
    help: 'most bytes that models may take in DIR (default: what its file system has free)',
  },
  'load-timeout': { value: 'SECONDS', default: '600', help: 'for one model' },
  'leave-seconds': {
    value: 'SECONDS',
    default: '20',
    help: 'time until clients notice that the pod is not Ready: a pod waits so long before it tries a release outside of the Service',
  },
  target: {
    value: 'RELEASE PROCESSORS',
    help: 'what this pod runs compiled models with, such as "26.11 8.9": a release with models for another one is refused',
  },
  gpus: {
    value: 'COUNT',
    default: '0',
    help: 'GPUs of this pod: a release is refused if Triton serves its models on the CPU instead',
  },
} as const;

const LINE = {
  name: 'agent.cjs',
  about: 'Has one Triton server serve the current release of a model repository in S3.',
  flags: FLAGS,
  notes: `Region and credentials are found as the AWS tools find them. Each line of the output is JSON.`,
};

/** The program beside each Triton. Runs until SIGTERM; Triton goes on serving after that. */
export const main = command(LINE, async (flags) => {
  const directory = required(flags.directory, 'directory');
  const location = parseLocation(required(flags.bucket, 'bucket'));
  const store = new S3Store({ bucket: location.bucket });
  const triton = new ControlClient(
    {
      url: flags.triton,
      grpcAddress: flags.grpc ?? defaultGrpcAddress(flags.triton),
      modelControlKey: readKey(directory),
    },
    CLIENT_OPTIONS,
  );
  const agent = new Agent({
    store,
    location,
    directory,
    diskBytes: flags['disk-bytes'] === undefined ? undefined : toNumber(flags['disk-bytes'], 'disk-bytes'),
    triton,
    loadTimeoutMs: 1000 * toNumber(flags['load-timeout'], 'load-timeout'),
    leaveMs: 1000 * toNumber(flags['leave-seconds'], 'leave-seconds'),
    gpus: toNumber(flags.gpus, 'gpus'),
    target: flags.target,
    onEvent: (event) => process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), ...event })}\n`),
  });
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort());
  const listeners = [
    await startControlApi(agent, toNumber(flags['control-port'], 'control-port')),
    await startReadOnlyApi(agent, toNumber(flags.port, 'port'), flags.host),
  ];
  try {
    await agent.run(stopping.signal);
  } finally {
    for (const listener of listeners) await listener.close();
    triton.close();
    store.close();
  }
  return EXIT.ok;
});

function required(value: string | undefined, flag: string): string {
  if (value !== undefined) return value;
  throw new UsageError(`--${flag} is missing`, { hint: `add --${flag}` });
}

function toNumber(text: string, flag: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new UsageError(`--${flag} ${text}: not a number`, { hint: 'write a whole number' });
}
