import { TritonServer, type TritonServerArgs } from '../../infra/triton/server';
import { registered } from './registered-stack';

/** A registered object. */
interface Registered {
  /** Pulumi's type token: `kubernetes:apps/v1:Deployment`. */
  type: string;
  /** Pulumi's name. */
  name: string;
  /** The manifest; a secret value is `{ secret: VALUE }`. */
  manifest: Record<string, unknown>;
}

interface Rendered {
  objects: Registered[];
  /** The only object of a kind, optionally with this name in Pulumi. Fails if there is not exactly one. */
  only: (kind: string, name?: string) => Record<string, unknown>;
}

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

/** Runs the component against mocks, and returns all objects that it registers. */
export async function render(more: Partial<TritonServerArgs> = {}, name = 'triton'): Promise<Rendered> {
  const { resources } = await registered(() => new TritonServer(name, { ...ARGS, ...more }), 'test');
  const objects = resources.map(({ type, name: logical, marked }) => ({ type, name: logical, manifest: marked }));
  return {
    objects,
    only: (kind, wanted) => {
      const found = objects.filter((one) => one.type.endsWith(`:${kind}`) && (wanted ?? one.name) === one.name);
      expect([kind, found.length]).toEqual([kind, 1]);
      return found[0]?.manifest ?? {};
    },
  };
}
