import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensureKubernetesPlugin } from '../../tools/toolchain/pulumi';
import type { ControlPlane } from './control-plane';
import type { Scratch } from './scratch';
import { TestStack, type StackConfig } from './stack';

/** Programs that a stack on a control plane needs, by the folders that pin them. */
const ENGINES = ['kubernetes', 'kwok', 'pulumi', 'pulumi-kubernetes', 'pulumi-language-nodejs'];

/** Why there cannot be such a stack here; undefined if there can. */
export function whyNoEngines(...more: string[]): string | undefined {
  return whyNoGo([...ENGINES, ...more]);
}

/** As in Pulumi.local.yaml and the defaults of TritonServer. */
export const NAMESPACE = 'triton';
export const DEPLOYMENT = 'triton';

/** Not a secret of anybody. */
export const LOCAL_KEYS = {
  s3AccessKeyId: LOCAL_CREDENTIALS.accessKeyId,
  s3SecretAccessKey: LOCAL_CREDENTIALS.secretAccessKey,
} as const;

export interface LocalStackOptions {
  /** The S3 API that Triton is told. Default: one where nothing listens; simulated pods ask nothing. */
  endpoint?: string;
  /** Default: model-repository. */
  bucket?: string;
  config?: StackConfig;
}

/** The `local` stack on a test's cluster; nothing of it is deployed yet. */
export async function localStack(
  scratch: Scratch,
  plane: ControlPlane,
  options: LocalStackOptions = {},
): Promise<TestStack> {
  return TestStack.create(scratch, 'local', {
    plugins: [await ensureKubernetesPlugin()],
    config: {
      kubeContext: 'admin',
      gpusPerPod: 1,
      replicas: 2,
      bucketName: options.bucket ?? 'model-repository',
      s3Endpoint: options.endpoint ?? 'http://127.0.0.1:9',
      ...options.config,
    },
    secrets: { ...LOCAL_KEYS, kubeconfig: plane.access.kubeconfig() },
  });
}
