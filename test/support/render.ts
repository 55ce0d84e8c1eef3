import { TritonServer, type TritonServerArgs } from '../../infra/triton/server';
import { registered } from './registered-stack';

export const ARGS: TritonServerArgs = {
  modelRepository: 's3://models-prod/models',
  region: 'eu-central-1',
  credentials: { roleArn: 'arn:aws:iam::123456789012:role/triton' },
  image: 'registry.example/tritonserver:1.2.3',
};

/** Pod selector of the server `triton`. A literal, because the selector of an existing Deployment cannot change. */
export const SELECTOR = { 'app.kubernetes.io/name': 'triton', 'app.kubernetes.io/instance': 'triton' };

/** Labels of all objects of the server. */
export const LABELS = {
  ...SELECTOR,
  'app.kubernetes.io/component': 'inference-server',
  'app.kubernetes.io/managed-by': 'pulumi',
};

/** Runs the component against mocks. Returns the manifests of its objects, in which a secret value is `{ secret: VALUE }`. */
export async function render(more: Partial<TritonServerArgs> = {}, name = 'triton') {
  const { resources, only } = await registered(() => new TritonServer(name, { ...ARGS, ...more }), 'test');
  return {
    /** Type and name in Pulumi, and the manifest. */
    objects: resources.map(({ type, name: logical, marked }) => ({ type, name: logical, manifest: marked })),
    /** The only object of a kind, optionally with this name in Pulumi. Fails if there is not exactly one. */
    only: (kind: string, wanted?: string) => only(kind, wanted).marked,
  };
}
