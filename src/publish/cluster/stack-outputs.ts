import { existsSync } from 'node:fs';
import { UserError, type Problem } from '../../core/errors';
import { CommandError, exec } from '../../core/exec';
import type { BakeSetting } from '../../release/bake';
import type { BuilderOutput } from './builder-output';

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
    podSelector: string;
    builder?: BuilderOutput | undefined;
    bake?: BakeSetting | undefined;
  };
}

/**
 * The contract between infra/, which exports these outputs, and `npm run sync-models -- --stack`, which reads them.
 * Renaming an output breaks the other side. Other outputs of a stack are ignored.
 */
export const STACK_OUTPUTS = {
  modelRepository: 'the model repository, "s3://BUCKET/PREFIX"',
  region: 'the AWS region of its bucket, "eu-central-1"',
  endpointUrl: "an S3 API that is not AWS's, http://... or https://...",
  kubeconfig: 'a kubeconfig of the cluster, as an object or as text',
  namespace: 'the namespace of the Triton pods',
  podSelector: 'the label selector of the Triton pods, "app=triton"',
  builder: 'how models are compiled for the replicas, JSON or empty',
  bake: 'how long releases are compared with the one before, JSON',
};

type OutputName = keyof typeof STACK_OUTPUTS;

/** A stack has all of these outputs or none. */
const OF_CLUSTER = ['kubeconfig', 'namespace', 'podSelector'] as const satisfies OutputName[];

const WITHOUT_STACK = 'name the bucket instead of a stack: --bucket s3://NAME/PREFIX (promote: --from and --to)';

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
  const { stdout } = await exec('pulumi', args, { cwd, env }).catch((error: unknown) => {
    throw explain(stack, cwd, error);
  });
  return parseStackOutputs(stack, JSON.parse(stdout) as Record<string, unknown>);
}

/**
 * Checks the outputs.
 * @throws UserError with all problems
 */
export function parseStackOutputs(stack: string, outputs: Readonly<Record<string, unknown>>): StackOutputs {
  const { kubeconfig } = outputs;
  const isObject = typeof kubeconfig === 'object' && kubeconfig !== null && !Array.isArray(kubeconfig);
  const given = { ...outputs, ...(isObject && { kubeconfig: JSON.stringify(kubeconfig) }) } as Record<string, unknown>;
  // Empty if the GPUs of the stack are not known.
  if (given['builder'] === '') delete given['builder'];
  const hasCluster = OF_CLUSTER.some((name) => given[name] !== undefined && given[name] !== null);
  const needed: OutputName[] = ['modelRepository', 'region', ...(hasCluster ? OF_CLUSTER : [])];
  const names = Object.keys(STACK_OUTPUTS) as OutputName[];
  const problems = names.flatMap((name): Problem[] => {
    const value = given[name] ?? undefined;
    if (value === undefined ? !needed.includes(name) : typeof value === 'string' && value.trim() !== '') return [];
    const message = value === undefined ? 'is missing' : 'is not a text';
    return [{ file: `stack ${stack}`, field: `output ${name}`, message, allowed: STACK_OUTPUTS[name] }];
  });
  if (problems.length > 0) {
    throw new UserError(`stack ${stack} does not have the outputs that publishing needs`, {
      problems,
      hint: 'update the stack with "pulumi up", or check that it is the stack with the replicas; a program of your own has to export them',
    });
  }
  const text = (name: OutputName): string => given[name] as string;
  const json = (name: OutputName): unknown => (given[name] === undefined ? undefined : JSON.parse(text(name)));
  return {
    modelRepository: text('modelRepository'),
    region: text('region'),
    endpointUrl: given['endpointUrl'] === null ? undefined : text('endpointUrl'),
    cluster: hasCluster
      ? {
          kubeconfig: text('kubeconfig'),
          namespace: text('namespace'),
          podSelector: text('podSelector'),
          builder: json('builder') as BuilderOutput | undefined,
          bake: json('bake') as BakeSetting | undefined,
        }
      : undefined,
  };
}

/** Converts an error of Pulumi to a UserError. Its stdout may hold values, so only stderr is quoted. */
function explain(stack: string, folder: string, error: unknown): Error {
  if (!(error instanceof CommandError)) return error as Error;
  if (error.exitCode === null && /ENOENT/.test(error.message)) {
    return new UserError('pulumi is not on PATH', {
      hint: `install it (https://www.pulumi.com/docs/install), or ${WITHOUT_STACK}`,
    });
  }
  const reason = error.output.stderr.trim().replace(/^error: /, '');
  return new UserError(
    `cannot read the outputs of stack ${stack} in ${folder}: ${reason === '' ? `exit code ${error.exitCode}` : reason}`,
    { hint: `--stack-dir names the folder that contains Pulumi.yaml; or ${WITHOUT_STACK}` },
  );
}
