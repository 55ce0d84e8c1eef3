import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensureKubernetesPlugin } from '../../tools/toolchain/pulumi';
import { ControlPlane } from './control-plane';
import type { Scratch } from './temp-dir';
import { TestStack, type StackConfig } from './stack';

/** Folders that pin the programs which a stack on a control plane needs. */
const ENGINES = ['kubernetes', 'kwok', 'pulumi', 'pulumi-kubernetes', 'pulumi-language-nodejs'];

/** Why this machine cannot run such a stack; undefined if it can. */
export function whyNoEngines(...more: string[]): string | undefined {
  return whyNoGo([...ENGINES, ...more]);
}

/** The same as in Pulumi.local.yaml and the defaults of TritonServer. */
export const NAMESPACE = 'triton';
export const DEPLOYMENT = 'triton';

/** Credentials of the local S3 server, which are not secret. */
export const LOCAL_KEYS = {
  's3.accessKeyId': LOCAL_CREDENTIALS.accessKeyId,
  's3.secretAccessKey': LOCAL_CREDENTIALS.secretAccessKey,
} as const;

export interface LocalStackOptions {
  /** S3 endpoint for Triton. Default: a port without a server, because simulated pods send no requests. */
  endpoint?: string;
  /** Default: model-repository. */
  bucket?: string;
  config?: StackConfig;
}

/** Starts a control plane with three GPU nodes, and deploys the `local` stack on it. */
export async function deployLocalStack(
  scratch: Scratch,
  options: LocalStackOptions = {},
): Promise<{ plane: ControlPlane; stack: TestStack }> {
  const plane = await ControlPlane.start(scratch);
  for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`);
  const stack = await localStack(scratch, plane, options);
  await stack.up();
  return { plane, stack };
}

/** Creates the `local` stack on a test's cluster. Nothing is deployed yet. */
export async function localStack(
  scratch: Scratch,
  plane: ControlPlane,
  options: LocalStackOptions = {},
): Promise<TestStack> {
  return TestStack.create(scratch, 'local', {
    plugins: [await ensureKubernetesPlugin()],
    config: {
      existingCluster: { context: 'admin' },
      gpusPerPod: 1,
      replicas: 2,
      modelRepository: `s3://${options.bucket ?? 'model-repository'}/models`,
      s3: { endpoint: options.endpoint ?? 'http://127.0.0.1:9' },
      ...options.config,
    },
    secrets: { ...LOCAL_KEYS, 'existingCluster.kubeconfig': plane.access.kubeconfig() },
  });
}

/** Changes the kubeconfig of a stack, as users do. */
export const setKubeconfig = (stack: TestStack, text: string): Promise<string> =>
  stack.pulumi('config', 'set', '--stack', stack.name, '--secret', '--path', 'existingCluster.kubeconfig', '--', text);
