import { resolve } from 'node:path';
import { UsageError, UserError } from '../core/errors';
import { withShortWarmUp } from '../local/short-warm-up';
import { findLocalStack } from '../local/state';
import type { RepositoryModel } from '../model';
import { paths } from '../core/paths';
import { formatLocation, parseLocation, type RepositoryLocation } from '../publish/location';
import { CONTROL_KEY_VARIABLE, fixedReplicas, guardedReplicas, type ReplicaSource } from '../cluster/source';
import { S3Store } from '../s3/store';

/** Flags of every command that works on a repository in S3. */
export const STORE_FLAGS = {
  stack: { type: 'string' },
  'stack-dir': { type: 'string' },
  bucket: { type: 'string' },
  'endpoint-url': { type: 'string' },
  region: { type: 'string' },
  local: { type: 'boolean', default: false },
  repo: { type: 'string' },
} as const;

/** Flags that say where the replicas are. */
export const SERVER_FLAGS = {
  triton: { type: 'string', multiple: true },
  namespace: { type: 'string' },
  selector: { type: 'string' },
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
} as const;

/** Flags of every command that works on a repository in S3 and its replicas. */
export const TARGET_FLAGS = { ...STORE_FLAGS, ...SERVER_FLAGS };

export const STORE_HELP = `  --local                    the running "npm run local": its bucket, keys and server; of several --repo DIR names one
  --stack NAME               take bucket, region and cluster from the outputs of this Pulumi stack; flags go before them
  --stack-dir DIR            folder of the Pulumi program (default: this package)
  --bucket s3://NAME/PREFIX  where the repository is in S3
  --endpoint-url URL         an S3 API other than AWS's (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)
  --region NAME              region of the bucket (default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1)
`;

export const SERVER_HELP = `  --triton URL               a running server, http://HOST:PORT; may be given again
  --selector LABELS          or: the servers are the pods with these labels, app=triton, reached through the Kubernetes API
  --namespace NAME           of those pods (default: default)
  --kubeconfig FILE, --context NAME  which cluster (default: as kubectl)
                             TRITON_MODEL_CONTROL_KEY in the environment: the key of servers whose model control is guarded
`;

export const TARGET_HELP = STORE_HELP + SERVER_HELP;

/** Hint for a user who changed a repository alone, and may have meant its replicas too. */
export const NAME_SERVERS = 'name them with --triton URL or --selector LABELS, or a --stack that has servers';

export interface TargetFlags {
  local?: boolean | undefined;
  repo?: string | undefined;
  stack?: string | undefined;
  'stack-dir'?: string | undefined;
  bucket?: string | undefined;
  'endpoint-url'?: string | undefined;
  region?: string | undefined;
  triton?: string[] | undefined;
  namespace?: string | undefined;
  selector?: string | undefined;
  kubeconfig?: string | undefined;
  context?: string | undefined;
}

/** A repository in S3 and its replicas. */
export interface CommandTarget {
  /** For messages. */
  name: string;
  /** Folder that a local stack was started from. */
  repository?: string;
  /** For a local stack: changes each model before it is published. */
  adapt?: (model: RepositoryModel) => RepositoryModel;
  /** Undefined if a bucket was given instead. */
  stack?: string;
  location: RepositoryLocation;
  store: S3Store;
  /** Undefined if no replicas were given. */
  replicas: ReplicaSource | undefined;
  close(): Promise<void>;
}

/** Opens the repository and replicas that a command works on. A flag takes precedence over the stack's output. */
export async function openTarget(flags: TargetFlags, options: { concurrency?: number } = {}): Promise<CommandTarget> {
  if (flags.local === true) return openLocal(flags, options);
  if (flags.repo !== undefined) {
    throw new UsageError('--repo is given without --local', { hint: 'it says which running "npm run local" is meant' });
  }
  const given = { ...flags };
  let modelControlKey = givenControlKey();
  requireOneWay(given);
  if (flags.stack !== undefined) {
    // Loaded on demand, because most runs in CI name the bucket.
    const { readStackOutputs } = await import('../cluster/stack-outputs');
    const outputs = await readStackOutputs(flags.stack, flags['stack-dir'] ?? paths.root);
    given.bucket ??= outputs.modelRepository;
    given.region ??= outputs.region;
    given['endpoint-url'] ??= outputs.endpointUrl;
    modelControlKey ??= outputs.modelControlKey;
    if (flags.triton === undefined) {
      given.selector ??= outputs.cluster?.podSelector;
      given.namespace ??= outputs.cluster?.namespace;
      given.kubeconfig ??= outputs.cluster?.kubeconfig;
    }
  }
  if (given.bucket === undefined) {
    throw new UsageError('none of --stack, --bucket and --local is given', {
      hint: 'name the stack, --stack staging, or the place, --bucket s3://NAME/PREFIX, or take the running "npm run local", --local',
    });
  }
  const location = parseLocation(given.bucket);
  const endpointUrl = parseHttpUrl('endpoint-url', given['endpoint-url']);
  const found = await openReplicas(given);
  const replicas =
    found === undefined || modelControlKey === undefined ? found : guardedReplicas(found, modelControlKey);
  const store = new S3Store({
    bucket: location.bucket,
    ...(given.region === undefined ? {} : { region: given.region }),
    ...(endpointUrl === undefined ? {} : { endpointUrl }),
    ...(options.concurrency === undefined ? {} : { concurrency: options.concurrency }),
  });
  return {
    name: flags.stack === undefined ? formatLocation(location) : `${flags.stack} (${formatLocation(location)})`,
    ...(flags.stack === undefined ? {} : { stack: flags.stack }),
    location,
    store,
    replicas,
    close: async () => {
      store.close();
      await replicas?.close();
    },
  };
}

/** The repository and the server of a running `npm run local`. */
function openLocal(flags: TargetFlags, options: { concurrency?: number }): CommandTarget {
  const other = NOT_WITH_LOCAL.find((flag) => flags[flag] !== undefined);
  if (other !== undefined) {
    throw new UsageError(`--local and --${other} do not go together`, { hint: 'leave one of them out' });
  }
  const stack = findLocalStack(flags.repo === undefined ? undefined : resolve(flags.repo));
  const location = parseLocation(stack.bucket);
  const { endpointUrl, region, credentials } = stack;
  const store = new S3Store({
    bucket: location.bucket,
    endpointUrl,
    region,
    credentials,
    ...(options.concurrency === undefined ? {} : { concurrency: options.concurrency }),
  });
  return {
    name: `the local stack of ${stack.repository}`,
    repository: stack.repository,
    adapt: withShortWarmUp,
    location,
    store,
    replicas: fixedReplicas([stack.httpUrl], stack.modelControlKey),
    close: () => {
      store.close();
      return Promise.resolve();
    },
  };
}

const NOT_WITH_LOCAL = ['stack', 'bucket', 'endpoint-url', 'region', 'triton', 'selector'] as const;

/**
 * The model control key from the environment. Any key that fits into a header is accepted, because the servers need not
 * be ours.
 */
export function givenControlKey(): string | undefined {
  const key = process.env[CONTROL_KEY_VARIABLE];
  if (key === undefined || key === '') return undefined;
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new UserError(
    `${CONTROL_KEY_VARIABLE} is ${key.length} characters that are not shown; allowed: printable ASCII, no spaces`,
    {
      hint: 'check it for a line break at its end',
    },
  );
}

function requireOneWay(flags: TargetFlags): void {
  if (flags.triton !== undefined && flags.selector !== undefined) {
    throw new UsageError('--triton and --selector both say where the servers are', { hint: 'leave one of them out' });
  }
  const alone = (['namespace', 'kubeconfig', 'context'] as const).find((flag) => flags[flag] !== undefined);
  if (alone !== undefined && flags.selector === undefined && flags.stack === undefined) {
    throw new UsageError(`--${alone} is given without --selector`, { hint: 'add for example --selector app=triton' });
  }
}

async function openReplicas(flags: TargetFlags): Promise<ReplicaSource | undefined> {
  if (flags.triton !== undefined)
    return fixedReplicas(flags.triton.map((url) => parseHttpUrl('triton', url) as string));
  if (flags.selector === undefined) return undefined;
  const { kubernetesReplicas } = await import('../cluster/kubernetes');
  return kubernetesReplicas({
    selector: flags.selector,
    namespace: flags.namespace ?? 'default',
    ...(flags.kubeconfig === undefined ? {} : { kubeconfig: flags.kubeconfig }),
    ...(flags.context === undefined ? {} : { context: flags.context }),
  });
}

function parseHttpUrl(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--${flag} ${text}: not an address`, { hint: 'write it as http://HOST:PORT' });
  }
  return text.replace(/\/+$/, '');
}
