import { existsSync } from 'node:fs';
import { UserError, type Problem } from '../../core/errors';
import { CommandError, exec } from '../../core/exec';
import { LOCATION } from '../../release/location';

/** The outputs of a deployed stack that a publisher needs. */
export interface StackOutputs {
  /** `s3://BUCKET/PREFIX` */
  modelRepository: string;
  region: string;
  /** URL of an S3 API other than AWS's. */
  endpointUrl?: string;
  /** Where the replicas run; undefined for a stack that has only a bucket. */
  cluster?: {
    /** Text of a kubeconfig. Secret. */
    kubeconfig: string;
    namespace: string;
    /** Label selector of the Triton pods. */
    podSelector: string;
    builder?: BuilderOutput | undefined;
  };
}

/** How models are compiled for the replicas. The output has it as JSON. */
export interface BuilderOutput {
  /** Release of Triton and processors, such as `26.11 7.5 8.6` or `26.11 cpu`. */
  target: string;
  labels: Record<string, string>;
  /** A pod of Kubernetes, whose container has no command. */
  spec: { containers: readonly object[] };
}

/** The port of the container, on loopback of the pod. */
export const BUILDER_PORT = 8000;

interface OutputContract {
  what: string;
  /** Whether a stack must have the output. A stack has all outputs of the cluster or none. */
  part: 'required' | 'optional' | 'cluster';
  /** If true, the value never appears in a message. */
  secret: boolean;
  /** The allowed values, worded to follow "allowed:". */
  allowed: string;
  accepts(value: unknown): boolean;
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
const isJson = (value: unknown): boolean => {
  try {
    return value === '' || (isText(value) && isObject(JSON.parse(value)));
  } catch {
    return false;
  }
};
const isUrl = (value: unknown): boolean => isText(value) && URL.canParse(value) && /^https?:/.test(value);
const output = (
  part: OutputContract['part'],
  what: string,
  allowed = 'text',
  accepts: OutputContract['accepts'] = isText,
  secret = false,
): OutputContract => ({ part, what, allowed, accepts, secret });

/**
 * The contract between infra/, which exports these outputs, and `npm run sync-models -- --stack`, which reads them.
 * Renaming an output breaks the other side. Other outputs of a stack are ignored.
 */
export const STACK_OUTPUTS = {
  modelRepository: output(
    'required',
    'the model repository',
    '"s3://BUCKET/PREFIX"',
    (value) => isText(value) && LOCATION.test(value),
  ),
  region: output('required', 'the AWS region of its bucket', 'text such as "eu-central-1"'),
  endpointUrl: output('optional', "an S3 API that is not AWS's", '"http://..." or "https://..."', isUrl),
  kubeconfig: output(
    'cluster',
    'the credentials of the cluster',
    'a kubeconfig, as an object or as text',
    (value) => isText(value) || isObject(value),
    true,
  ),
  namespace: output('cluster', 'the namespace of the Triton pods'),
  podSelector: output('cluster', 'the label selector of the Triton pods', 'text such as "app=triton"'),
  builder: output('optional', 'how models are compiled for the replicas', 'JSON, or empty', isJson),
};

const WITHOUT_STACK = 'name the bucket instead of a stack: --bucket s3://NAME/PREFIX (promote: --from and --to)';

type OutputName = keyof typeof STACK_OUTPUTS;

/**
 * Reads the outputs of `stack` from Pulumi, including secret ones, and checks them.
 * @param cwd folder of the Pulumi program
 * @throws UserError that lists what is missing; the message has no value of a secret output
 */
export async function readStackOutputs(stack: string, cwd: string): Promise<StackOutputs> {
  if (!existsSync(cwd)) {
    throw new UserError(`cannot read stack ${stack}: folder ${cwd} does not exist`, {
      hint: `name the folder of the Pulumi program with --stack-dir, or ${WITHOUT_STACK}`,
    });
  }
  const env = { ...process.env, PULUMI_SKIP_UPDATE_CHECK: 'true' };
  const args = [...'stack output --json --show-secrets --non-interactive --color never --stack'.split(' '), stack];
  const { stdout: text } = await exec('pulumi', args, { cwd, env }).catch((error: unknown) => {
    throw explain(stack, cwd, error);
  });
  return parseStackOutputs(stack, parseObject(stack, text));
}

/**
 * Checks the outputs.
 * @throws UserError with all problems
 */
export function parseStackOutputs(stack: string, outputs: Readonly<Record<string, unknown>>): StackOutputs {
  const names = Object.keys(STACK_OUTPUTS) as OutputName[];
  const isThere = (name: OutputName): boolean => outputs[name] !== undefined && outputs[name] !== null;
  const hasCluster = names.some((name) => STACK_OUTPUTS[name].part === 'cluster' && isThere(name));
  const problems = names.flatMap((name): Problem[] => {
    const contract = STACK_OUTPUTS[name];
    const needed = contract.part === 'required' || (contract.part === 'cluster' && hasCluster);
    const problem = { file: `stack ${stack}`, field: `output ${name}`, allowed: contract.allowed };
    if (!isThere(name)) return needed ? [{ ...problem, message: `is missing (${contract.what})` }] : [];
    if (contract.accepts(outputs[name])) return [];
    return [{ ...problem, message: `is ${describeValue(outputs[name], contract.secret)} (${contract.what})` }];
  });
  if (problems.length > 0) {
    throw new UserError(`stack ${stack} does not have the outputs that publishing needs`, {
      problems,
      hint: 'update the stack with "pulumi up", or check that it is the stack with the replicas; a program of your own has to export them',
    });
  }
  const text = (name: OutputName): string => outputs[name] as string;
  return {
    modelRepository: text('modelRepository'),
    region: text('region'),
    endpointUrl: isThere('endpointUrl') ? text('endpointUrl') : undefined,
    cluster: hasCluster
      ? {
          kubeconfig:
            typeof outputs['kubeconfig'] === 'string' ? text('kubeconfig') : JSON.stringify(outputs['kubeconfig']),
          namespace: text('namespace'),
          podSelector: text('podSelector'),
          builder:
            isThere('builder') && outputs['builder'] !== ''
              ? (JSON.parse(text('builder')) as BuilderOutput)
              : undefined,
        }
      : undefined,
  };
}

function describeValue(value: unknown, secret: boolean): string {
  const kind = Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
  return secret ? `${kind} that is not shown` : JSON.stringify(value);
}

function parseObject(stack: string, text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text) as unknown;
    if (isObject(value)) return value as Record<string, unknown>;
  } catch {
    // The parser quotes the text, which may be secret.
  }
  throw new UserError(`cannot read the outputs of stack ${stack}: they are not a JSON object`, {
    hint: 'check them with "pulumi stack output"',
  });
}

/** What Pulumi writes to stderr, what it means, and the next step. */
const FAILURES: [pattern: RegExp, message: string, hint: string][] = [
  [
    /no stack named/,
    'stack STACK does not exist',
    '"pulumi stack ls" lists the stacks; "pulumi stack init STACK" creates this one',
  ],
  [
    /PULUMI_ACCESS_TOKEN|pulumi login|not logged in/i,
    'pulumi is not logged in to the backend of stack STACK',
    'run "pulumi login", or set PULUMI_BACKEND_URL',
  ],
  [
    /passphrase/i,
    'cannot decrypt the secrets of stack STACK',
    'set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE',
  ],
  // Outside of a project Pulumi also asks for a fully qualified stack name.
  [
    /no Pulumi\.yaml|fully qualified name/i,
    'FOLDER contains no Pulumi program',
    'name the folder that contains Pulumi.yaml with --stack-dir',
  ],
];

/** Converts an error of Pulumi to a UserError. Its stdout may hold values, so only stderr is quoted. */
function explain(stack: string, folder: string, error: unknown): Error {
  if (!(error instanceof CommandError)) return error as Error;
  if (error.exitCode === null && /ENOENT/.test(error.message)) {
    return new UserError('pulumi is not on PATH', {
      hint: `install it (https://www.pulumi.com/docs/install), or ${WITHOUT_STACK}`,
    });
  }
  const reason = error.output.stderr.trim().replace(/^error: /, '');
  const [, message = 'cannot read the outputs of stack STACK', hint] =
    FAILURES.find(([pattern]) => pattern.test(reason)) ?? [];
  const fill = (text: string): string => text.replaceAll('STACK', () => stack).replace('FOLDER', () => folder);
  return new UserError(`${fill(message)}: ${reason === '' ? `exit code ${error.exitCode}` : reason}`, {
    hint: hint && fill(hint),
  });
}
