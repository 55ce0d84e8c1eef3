import { LOCAL_CREDENTIALS } from '../../scripts/lib/local/s3-server';
import { ensureKubernetesPlugin } from '../../scripts/lib/toolchain/pulumi';
import type { ControlPlane } from './control-plane';
import type { Scratch } from './scratch';
import { TestStack } from './stack';

/** As in Pulumi.local.yaml and the defaults of TritonServer. */
export const NAMESPACE = 'triton';
export const DEPLOYMENT = 'triton';
export const POD_SELECTOR = 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=triton';

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
  config?: Readonly<Record<string, string>>;
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
      bucketName: options.bucket ?? 'model-repository',
      s3Endpoint: options.endpoint ?? 'http://127.0.0.1:9',
      ...options.config,
    },
    secrets: { ...LOCAL_KEYS, kubeconfig: plane.access.kubeconfig() },
  });
}
