import { existsSync } from 'node:fs';
import { UserError, type Problem } from '../core/errors';
import { CommandError, exec } from '../core/exec';
import { CONTROL_KEY, CONTROL_KEY_ALLOWED } from '../triton/control-key';

/** What a publisher has to know of a deployed stack. */
export interface StackOutputs {
  /** `s3://BUCKET/PREFIX` */
  modelRepository: string;
  region: string;
  /** An S3 API that is not AWS's. */
  endpointUrl?: string;
  /** What the servers' model control API asks for, where it is guarded: secret. */
  modelControlKey?: string;
  /** Where the servers run; undefined for a stack that is a bucket only. */
  cluster?: {
    /** Text of a kubeconfig: secret. */
    kubeconfig: string;
    namespace: string;
    /** Label selector of the Triton pods. */
    podSelector: string;
  };
}

interface OutputContract {
  what: string;
  /** Whether a stack has to have it. Those of the cluster come all together or not at all. */
  part: 'required' | 'optional' | 'cluster';
  /** Then its value never gets into a message. */
  secret: boolean;
  /** Says what is allowed, to be read after "allowed:". */
  allowed: string;
  accepts(value: unknown): boolean;
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The contract between infra/, which exports these outputs, and `npm run sync-models -- --stack`, which reads them.
 * Renaming one breaks the other side; other outputs of a stack are of no concern here.
 */
export const STACK_OUTPUTS = {
  modelRepository: {
    what: 'the model repository',
    part: 'required',
    secret: false,
    allowed: '"s3://BUCKET/PREFIX"',
    accepts: (value) => isText(value) && /^s3:\/\/[^/\s]+\/[^/\s]\S*$/.test(value),
  },
  region: {
    what: 'the AWS region of its bucket',
    part: 'required',
    secret: false,
    allowed: 'text such as "eu-central-1"',
    accepts: isText,
  },
  endpointUrl: {
    what: "an S3 API that is not AWS's",
    part: 'optional',
    secret: false,
    allowed: '"http://..." or "https://..."',
    accepts: (value) => isText(value) && URL.canParse(value) && /^https?:/.test(value),
  },
  modelControlKey: {
    what: "the key of the servers' model control API",
    part: 'optional',
    secret: true,
    allowed: CONTROL_KEY_ALLOWED,
    accepts: (value) => typeof value === 'string' && CONTROL_KEY.test(value),
  },
  kubeconfig: {
    what: 'how to reach the cluster',
    part: 'cluster',
    secret: true,
    allowed: 'a kubeconfig, as an object or as text',
    accepts: (value) => isText(value) || isObject(value),
  },
  namespace: {
    what: 'the namespace of the Triton pods',
    part: 'cluster',
    secret: false,
    allowed: 'text',
    accepts: isText,
  },
  podSelector: {
    what: 'the label selector of the Triton pods',
    part: 'cluster',
    secret: false,
    allowed: 'text such as "app=triton"',
    accepts: isText,
  },
} as const satisfies Record<string, OutputContract>;

const WITHOUT_STACK = 'name the bucket instead of a stack: --bucket s3://NAME/PREFIX, of promote --from and --to';

type OutputName = keyof typeof STACK_OUTPUTS;

/**
 * Asks Pulumi for the outputs of `stack`, secret ones included, and checks them.
 * @param cwd folder of the Pulumi program
 * @throws UserError that says what is missing; no output's value that is secret is in it
 */
export async function readStackOutputs(stack: string, cwd: string): Promise<StackOutputs> {
  if (!existsSync(cwd)) {
    throw new UserError(`there is no folder ${cwd}, where stack ${stack} would be read from`, {
      hint: `name the folder of the Pulumi program with --stack-dir, or ${WITHOUT_STACK}`,
    });
  }
  const text = await runPulumi(['stack', 'output', '--json', '--show-secrets', '--stack', stack], cwd).catch(
    async (error: unknown) => {
      throw await explain(stack, cwd, error);
    },
  );
  return parseStackOutputs(stack, parseObject(stack, text));
}

/** The checked outputs; every problem is told at once. */
export function parseStackOutputs(stack: string, outputs: Readonly<Record<string, unknown>>): StackOutputs {
  const names = Object.keys(STACK_OUTPUTS) as OutputName[];
  const isThere = (name: OutputName): boolean => outputs[name] !== undefined && outputs[name] !== null;
  const hasCluster = names.some((name) => STACK_OUTPUTS[name].part === 'cluster' && isThere(name));
  const problems = names.flatMap((name): Problem[] => {
    const contract: OutputContract = STACK_OUTPUTS[name];
    const needed = contract.part === 'required' || (contract.part === 'cluster' && hasCluster);
    const problem = { file: `stack ${stack}`, field: `output ${name}`, allowed: contract.allowed };
    if (!isThere(name)) return needed ? [{ ...problem, message: `is missing (${contract.what})` }] : [];
    if (contract.accepts(outputs[name])) return [];
    return [{ ...problem, message: `is ${describeValue(outputs[name], contract.secret)} (${contract.what})` }];
  });
  if (problems.length > 0) {
    throw new UserError(`stack ${stack} does not have the outputs that publishing needs`, {
      problems,
      hint: 'bring it up to date with "pulumi up", or check that it is the stack of the servers',
    });
  }
  const text = (name: OutputName): string => outputs[name] as string;
  return {
    modelRepository: text('modelRepository'),
    region: text('region'),
    ...(isThere('endpointUrl') ? { endpointUrl: text('endpointUrl') } : {}),
    ...(isThere('modelControlKey') ? { modelControlKey: text('modelControlKey') } : {}),
    ...(hasCluster
      ? {
          cluster: {
            kubeconfig:
              typeof outputs['kubeconfig'] === 'string' ? text('kubeconfig') : JSON.stringify(outputs['kubeconfig']),
            namespace: text('namespace'),
            podSelector: text('podSelector'),
          },
        }
      : {}),
  };
}

function describeValue(value: unknown, secret: boolean): string {
  const kind = Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
  return secret ? `${kind} that is not shown` : JSON.stringify(value);
}

async function runPulumi(args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, PULUMI_SKIP_UPDATE_CHECK: 'true' };
  return (await exec('pulumi', [...args, '--non-interactive', '--color', 'never'], { cwd, env })).stdout;
}

function parseObject(stack: string, text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text) as unknown;
    if (isObject(value)) return value as Record<string, unknown>;
  } catch {
    // The parser quotes what it read, which may be secret.
  }
  throw new UserError(`the outputs of stack ${stack} are not a JSON object`, {
    hint: 'look at them with "pulumi stack output"',
  });
}

/** What Pulumi said on stderr, in our words. Its stdout is for values and stays out. */
async function explain(stack: string, cwd: string, error: unknown): Promise<unknown> {
  if (!(error instanceof CommandError)) return error;
  if (error.exitCode === null && /ENOENT/.test(error.message)) {
    return new UserError('pulumi is not on PATH', {
      hint: `install it (https://www.pulumi.com/docs/install), or ${WITHOUT_STACK}`,
    });
  }
  const said = error.output.stderr.trim();
  const reason = said.replace(/^error: /, '');
  if (/no stack named/.test(said)) {
    return new UserError(`there is no stack ${stack}; ${await describeStacks(cwd)}`, {
      hint: `name one of them, or make it with "pulumi stack init ${stack}" and "pulumi up"`,
    });
  }
  if (/PULUMI_ACCESS_TOKEN|pulumi login|not logged in/i.test(said)) {
    return new UserError(`pulumi is not logged in to where stack ${stack} is kept: ${reason}`, {
      hint: 'run "pulumi login", or set PULUMI_BACKEND_URL',
    });
  }
  if (/passphrase/i.test(said)) {
    return new UserError(`the secrets of stack ${stack} cannot be read: ${reason}`, {
      hint: 'set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE',
    });
  }
  // Outside of a project it asks for the name of one too.
  if (/no Pulumi\.yaml|fully qualified name/i.test(said)) {
    return new UserError(`${cwd} holds no Pulumi program: ${reason}`, {
      hint: 'name the folder that has Pulumi.yaml with --stack-dir',
    });
  }
  return new UserError(
    `the outputs of stack ${stack} cannot be read: ${reason === '' ? `exit code ${error.exitCode}` : reason}`,
  );
}

async function describeStacks(cwd: string): Promise<string> {
  try {
    const stacks = JSON.parse(await runPulumi(['stack', 'ls', '--json'], cwd)) as { name: string }[];
    const names = stacks.map(({ name }) => name);
    return names.length === 0 ? 'there is none yet' : `there are ${names.join(', ')}`;
  } catch {
    return 'which there are could not be found out';
  }
}
