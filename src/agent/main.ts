import { command, EXIT } from '../cli/cli';
import { UsageError } from '../core/errors';
import { parseLocation } from '../release/location';
import { S3Reader } from '../s3/reader';
import { ControlClient, defaultGrpcAddress } from '../triton/control-client';
import { Agent, CLIENT_OPTIONS } from './agent';
import { startControlApi, startReadOnlyApi } from './control-api';
import { KEY_FILE, readKey } from './pod-files';

const HELP = `Has one Triton server serve the current release of a model repository in S3.

  --bucket s3://NAME/PREFIX  the model repository
  --directory DIR            the agent's disk; Triton reads DIR/models, and its control key is in DIR/${KEY_FILE}
  --triton URL               the HTTP API of the server (default http://127.0.0.1:8000)
  --grpc HOST:PORT           its gRPC API (default for port 8000: port 8001). Without it models are loaded over HTTP,
                             and requests on connections of the same thread wait for each load
  --control-port PORT        for publishers, on loopback (default 8090)
  --port PORT                for state and metrics (default 8091)
  --host ADDRESS             where --port is opened (default 0.0.0.0: every address of the pod)
  --disk-bytes COUNT         most bytes that models may take in DIR (default: what its file system has free)
  --load-timeout SECONDS     for one model (default 600)
  --leave-seconds SECONDS    time until clients notice that the pod is not Ready: a pod waits so long before it tries a
                             release outside of the Service (default 20)
  --gpus COUNT               GPUs of this pod: a release is refused if Triton serves its models on the CPU instead (default 0)
  --help                     print this text

Region and credentials are found as the AWS tools find them. Each line of the output is JSON.
`;

const FLAGS = {
  bucket: { type: 'string' },
  directory: { type: 'string' },
  triton: { type: 'string', default: 'http://127.0.0.1:8000' },
  grpc: { type: 'string' },
  'control-port': { type: 'string', default: '8090' },
  port: { type: 'string', default: '8091' },
  host: { type: 'string', default: '0.0.0.0' },
  'disk-bytes': { type: 'string' },
  'load-timeout': { type: 'string', default: '600' },
  'leave-seconds': { type: 'string', default: '20' },
  gpus: { type: 'string', default: '0' },
} as const;

/** The program beside each Triton. Runs until SIGTERM; Triton goes on serving after that. */
export const main = command({ help: HELP, flags: FLAGS }, async (flags) => {
  const directory = required(flags.directory, 'directory');
  const location = parseLocation(required(flags.bucket, 'bucket'));
  const store = new S3Reader({ bucket: location.bucket });
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
