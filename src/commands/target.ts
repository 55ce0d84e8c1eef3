import { resolve } from 'node:path';
import { UsageError } from '../core/errors';
import { adaptModels } from '../local/adapt-model';
import { findLocalStack, localReplica } from '../local/state';
import { nextCommand } from '../core/next-command';
import { paths } from '../core/paths';
import { formatLocation, parseLocation, type RepositoryLocation } from '../release/location';
import type { PublishOptions } from '../publish/publish';
import type { StackOutputs } from '../publish/cluster/stack-outputs';
import { fixedReplicas, type ReplicaSource } from '../publish/cluster/source';
import { S3Store, type Encryption, type StoreOptions } from '../s3/store';

const DEFAULT_NAMESPACE = 'default';

/** Flags of every command that works on a repository in S3. */
export const STORE_FLAGS = {
  stack: {
    value: 'NAME',
    help: 'bucket, region and cluster from the outputs of this Pulumi stack; other flags override them',
  },
  'stack-dir': { value: 'DIR', help: 'folder of the Pulumi program (default: the project)' },
  bucket: { value: 's3://NAME/PREFIX', help: 'location of the model repository in S3' },
  'endpoint-url': {
    value: 'URL',
    help: 'an S3 API other than that of AWS (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the AWS profile)',
  },
  region: {
    value: 'NAME',
    help: 'region of the bucket (default: AWS_REGION, AWS_DEFAULT_REGION, the AWS profile, us-east-1)',
  },
  local: { help: 'the bucket and the replica of the running "npm run local"; if several run, --repo selects one' },
  repo: { value: 'DIR', help: 'with --local, selects one of several running "npm run local" by its model repository' },
} as const;

export const SERVER_FLAGS = {
  triton: { value: 'URL', multiple: true, help: 'a replica, http://HOST:PORT; repeat the flag for several replicas' },
  agent: {
    value: 'URL',
    multiple: true,
    help: 'the agent of that replica, http://127.0.0.1:PORT; one for each --triton, in their order',
  },
  namespace: { value: 'NAME', help: `namespace of these pods (default: ${DEFAULT_NAMESPACE})` },
  selector: {
    value: 'LABELS',
    help: 'instead of --triton: the replicas are the pods with these labels, for example app=triton',
  },
  kubeconfig: { value: 'FILE', help: 'kubeconfig of the cluster (default: as kubectl)' },
  context: { value: 'NAME', help: 'context in the kubeconfig (default: its current context)' },
} as const;

export const TARGET_FLAGS = { ...STORE_FLAGS, ...SERVER_FLAGS };

/** Hint for a user who named a repository without its replicas. */
export const NAME_SERVERS =
  'add --triton URL and --agent URL, or --selector LABELS, or use a --stack that has replicas';

export type TargetFlags = {
  [F in keyof typeof TARGET_FLAGS]?: F extends 'local' ? boolean : F extends 'triton' | 'agent' ? string[] : string;
} & { sse?: string };

/** A repository in S3 and its replicas. */
export interface CommandTarget {
  /** For messages. */
  name: string;
  /** The flags that selected the target, for the commands that messages suggest. */
  flags: TargetFlags;
  /** Folder that a local stack was started from. */
  repository?: string;
  /** For a local stack: see PublishOptions. */
  adaptToThisMachine?: PublishOptions['adaptToThisMachine'];
  /** The cluster of the stack, if it has one. */
  cluster?: StackOutputs['cluster'];
  /** Undefined if a bucket was given instead. */
  stack?: string | undefined;
  location: RepositoryLocation;
  store: S3Store;
  replicas: ReplicaSource | undefined;
  close(): Promise<void>;
}

/** A command for the same target, ready to copy. */
export function targetCommand(script: string, { flags }: Pick<CommandTarget, 'flags'>, ...words: string[]): string {
  const all = Object.keys(script === 'releases' ? STORE_FLAGS : TARGET_FLAGS) as (keyof TargetFlags)[];
  // Without --local, only sync-models has a model repository.
  const names = all.filter((name) => name !== 'repo' || flags.local === true || script === 'sync-models');
  const given = names.flatMap((name) =>
    [flags[name] ?? false].flat().flatMap((value) => {
      if (typeof value === 'string') return [`--${name}`, value];
      return value ? [`--${name}`] : [];
    }),
  );
  return nextCommand(script, ...given, ...words);
}

/**
 * Adds flags to the commands in a message of the library, which does not know the flags: those of `target` to
 * `npm run status`, those of `source`, which has the releases, to the others.
 */
export const withTargetFlags = (
  text: string,
  target: Pick<CommandTarget, 'flags'>,
  source: Pick<CommandTarget, 'flags'> = target,
): string =>
  text.replace(
    /\bnpm run (status|releases|sync-models|rollback)\b(?! -- -)( -- )?/g,
    (_, script: string, words?: string) => {
      const command = targetCommand(script, script === 'status' ? target : source);
      return words === undefined ? command : `${command} `;
    },
  );

/** Runs a command on a repository and its replicas. A flag takes precedence over the stack's output. */
export async function withTarget<T>(flags: TargetFlags, run: (target: CommandTarget) => Promise<T>): Promise<T> {
  const target = await openTarget(flags);
  return run(target).finally(() => target.close());
}

async function openTarget(flags: TargetFlags): Promise<CommandTarget> {
  if (flags.local === true) return openLocal(flags);
  if (flags.repo !== undefined) {
    throw new UsageError('--repo is given without --local', {
      hint: '--repo selects one of several running "npm run local": add --local, or omit --repo',
    });
  }
  const given = { ...flags };
  let cluster: StackOutputs['cluster'];
  requireOneWay(given);
  if (flags.stack !== undefined) {
    // Loaded on demand, because most runs in CI name the bucket.
    const { readStackOutputs } = await import('../publish/cluster/stack-outputs');
    const outputs = await readStackOutputs(flags.stack, flags['stack-dir'] ?? paths.project);
    given.bucket ??= outputs.modelRepository;
    given.region ??= outputs.region;
    given['endpoint-url'] ??= outputs.endpointUrl;
    ({ cluster } = outputs);
    if (flags.triton === undefined) {
      given.selector ??= cluster?.podSelector;
      given.namespace ??= cluster?.namespace;
      given.kubeconfig ??= cluster?.kubeconfig;
    }
  }
  if (given.bucket === undefined) {
    throw new UsageError('none of --stack, --bucket and --local is given', {
      hint: 'add --stack NAME, --bucket s3://NAME/PREFIX, or --local for the running "npm run local"',
    });
  }
  const location = parseLocation(given.bucket);
  const endpointUrl = parseHttpUrl('endpoint-url', given['endpoint-url']);
  const replicas = await openReplicas(given);
  const where = formatLocation(location);
  return openStore(
    { bucket: location.bucket, region: given.region, endpointUrl },
    {
      flags,
      name: flags.stack === undefined ? where : `${flags.stack} (${where})`,
      ...{ stack: flags.stack, cluster },
      location,
      replicas,
    },
  );
}

/** The repository and the server of a running `npm run local`. */
function openLocal(flags: TargetFlags): CommandTarget {
  const other = NOT_WITH_LOCAL.find((flag) => flags[flag] !== undefined);
  if (other !== undefined) {
    throw new UsageError(`--local and --${other} cannot be combined`, { hint: 'omit one of them' });
  }
  const stack = findLocalStack(flags.repo === undefined ? undefined : resolve(flags.repo));
  const location = parseLocation(stack.bucket);
  const { endpointUrl, region, credentials, repository } = stack;
  return openStore(
    { bucket: location.bucket, endpointUrl, region, credentials },
    {
      ...{ flags, name: `the local stack of ${repository}`, repository, adaptToThisMachine: adaptModels, location },
      replicas: localReplica(stack),
    },
  );
}

function openStore(bucket: StoreOptions, target: Omit<CommandTarget, 'store' | 'close'>): CommandTarget {
  const { sse } = target.flags;
  const store = new S3Store({ ...bucket, encryption: sse === undefined ? undefined : parseEncryption(sse) });
  const close = async (): Promise<void> => {
    store.close();
    await target.replicas?.close();
  };
  return { ...target, store, close };
}

function parseEncryption(text: string): Encryption {
  const [, algorithm, key] = /^(AES256|aws:kms:dsse|aws:kms)(?::(.+))?$/.exec(text) ?? [];
  if (algorithm === undefined || (algorithm === 'AES256' && key !== undefined)) {
    throw new UsageError(`--sse ${text}: unknown encryption`, { hint: 'AES256, aws:kms, or aws:kms:KEY' });
  }
  return { algorithm: algorithm as Encryption['algorithm'], key };
}

const NOT_WITH_LOCAL = ['stack', 'bucket', 'endpoint-url', 'region', 'triton', 'agent', 'selector'] as const;

function requireOneWay(flags: TargetFlags): void {
  if (flags.triton !== undefined && flags.selector !== undefined) {
    throw new UsageError('--triton and --selector cannot be combined, because both select the replicas', {
      hint: 'omit one of them',
    });
  }
  const { triton = [], agent = [] } = flags;
  if (agent.length !== triton.length) {
    throw new UsageError(`--agent is given ${agent.length} times and --triton ${triton.length} times`, {
      hint: 'give one --agent for each --triton, in the same order; pods with --stack or --selector need none',
    });
  }
  for (const flag of ['triton', 'agent'] as const) {
    const twice = flags[flag]?.find((url, index, urls) => urls.indexOf(url) !== index);
    if (twice !== undefined) throw new UsageError(`--${flag} ${twice} is given twice`, { hint: 'name it once' });
  }
  const alone = (['namespace', 'kubeconfig', 'context'] as const).find((flag) => flags[flag] !== undefined);
  if (alone !== undefined && flags.selector === undefined && flags.stack === undefined) {
    throw new UsageError(`--${alone} is given without --selector`, {
      hint: 'add --selector, for example --selector app=triton',
    });
  }
}

async function openReplicas(flags: TargetFlags): Promise<ReplicaSource | undefined> {
  if (flags.triton !== undefined) {
    const { triton, agent = [] } = flags;
    const parse = (flag: string, url = ''): string => parseHttpUrl(flag, url) as string;
    return fixedReplicas(triton.map((url, i) => ({ url: parse('agent', agent[i]), tritonUrl: parse('triton', url) })));
  }
  if (flags.selector === undefined) return undefined;
  const { KubernetesReplicas } = await import('../publish/cluster/kubernetes');
  const { selector, namespace = DEFAULT_NAMESPACE, kubeconfig, context } = flags;
  return new KubernetesReplicas({ selector, namespace, kubeconfig, context });
}

function parseHttpUrl(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--${flag} ${text}: not an address of a server`, { hint: 'write it as http://HOST:PORT' });
  }
  return text.replace(/\/+$/, '');
}
