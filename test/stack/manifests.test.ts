import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { Agent, fetch } from 'undici';
import type { TritonServerArgs } from '../../infra/triton/args';
import { CUSTOM_KINDS, customResourceDefinition, type CustomKind } from '../../tools/toolchain/custom-resources';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensureKubernetes } from '../../tools/toolchain/kubernetes';
import { describeUnless } from '../support/describe-unless';
import { runBlock, whyMissing } from '../support/doc-commands';
import { ClusterProcesses, startApiServer, type Access } from '../support/api-server';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { render } from '../support/render';

type ExposureArgs = NonNullable<TritonServerArgs['exposure']>;

const BUILD_MS = 30 * 60_000;
const ANSWER_MS = 60_000;

const INGRESS: ExposureArgs = {
  kind: 'ingress',
  host: 'triton.example.com',
  controllerCidrs: ['10.0.0.0/16'],
  certificateArn: 'arn:aws:acm:eu-central-1:123456789012:certificate/1',
};

/** All options that add or change an object. */
const CHOICES: Record<string, Partial<TritonServerArgs>> = {
  'nothing chosen': {},
  'placement, surge': {
    rollout: { maxSurge: 1, maxUnavailable: 0 },
    pod: {
      nodeSelector: { pool: 'a10g' },
      tolerations: [{ key: 'pool', value: 'a10g', effect: 'NoSchedule' }],
      runtimeClassName: 'nvidia',
      priorityClassName: 'serving',
      imagePullSecrets: ['registry'],
    },
    resources: { cpu: 3.5, memoryGiB: 14, scratchGiB: 100 },
    clientNamespaces: ['web'],
    egressCidrs: ['10.0.0.0/8'],
  },
  monitoring: { monitoring: { slo: { p99Milliseconds: 100 } } },
  'static keys': {
    agent: { image: 'registry.example/node:24.1.0' },
    gpusPerPod: 0,
    endpointUrl: 'http://minio.storage.svc:9000',
    credentials: { accessKeyId: 'id', secretAccessKey: 'key' },
  },
  'KEDA, monitoring': {
    autoscaling: { minReplicas: 2, maxReplicas: 8 },
    monitoring: { namespace: 'monitoring' },
  },
  'a load balancer': {
    exposure: { kind: 'internal-load-balancer', clientCidrs: ['10.1.0.0/16'], controllerCidrs: ['10.0.0.0/16'] },
  },
  'an ingress': { exposure: INGRESS, createIngressClass: true },
  'an ingress of another controller': {
    exposure: {
      ...INGRESS,
      className: 'traefik',
      certificateArn: undefined,
      tlsSecretName: 'tls',
      annotations: { 'traefik.io/middleware': 'auth' },
    },
  },
};

/** Kinds without a published definition. */
const ONLY_ON_EKS = ['IngressClassParams'];

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name?: string; namespace?: string };
  [field: string]: unknown;
}

interface Answer {
  status: number;
  /** Warnings that kubectl would print. */
  warnings: string;
  /** Why the object was rejected. */
  message: string;
}

describeUnless(whyNoGo(['kubernetes', 'custom-resources']), 'every object, as a real Kubernetes API takes it', () => {
  const scratch = new Scratch();
  let access: Access;
  let token: string;
  let connections: Agent;

  beforeAll(async () => {
    const programs = await ensureKubernetes();
    access = await startApiServer(await ClusterProcesses.in(scratch), { programs });
    const { users } = JSON.parse(access.kubeconfig()) as { users: [{ user: { token: string } }] };
    token = users[0].user.token;
    connections = new Agent({ connect: { ca: readFileSync(access.certificateFile) } });
    scratch.defer(() => connections.destroy());
    for (const kind of CUSTOM_KINDS) await define(kind);
    const { only } = await render();
    expect(await create(only('Namespace') as Manifest)).toMatchObject({ status: 201 });
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  async function define(kind: CustomKind): Promise<void> {
    const [definition] = loadAll(await customResourceDefinition(kind)) as [Manifest];
    // The status of some definitions is invalid, because it lacks fields that a controller would fill in.
    delete definition['status'];
    expect(await create(definition)).toMatchObject({ status: 201, message: '' });
    const { group, names, versions } = definition['spec'] as {
      group: string;
      names: { plural: string };
      versions: { name: string }[];
    };
    const path = `/apis/${group}/${versions[0]?.name}/namespaces/default/${names.plural}`;
    await until(`${kind} is served`, async () => (await call('GET', path)).status === 200);
  }

  /** Creates an object, or only validates it with a dry run. */
  function create(manifest: Manifest, dryRun = false): Promise<Answer> {
    const { apiVersion, kind, metadata } = manifest;
    const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const place = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
    const query = `fieldValidation=Strict${dryRun ? '&dryRun=All' : ''}`;
    return call('POST', `${group}${place}/${plural(kind)}?${query}`, manifest);
  }

  async function call(method: 'GET' | 'POST', path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${access.server}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      dispatcher: connections,
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const { message } = (await response.json()) as { message?: string };
    const { status, headers } = response;
    return { status, warnings: headers.get('warning') ?? '', message: status < 300 ? '' : (message ?? '') };
  }

  test.each(Object.keys(CHOICES))('%s', async (choice) => {
    const { objects } = await render(CHOICES[choice]);
    const manifests = objects.filter(({ type }) => type.startsWith('kubernetes:')).map(({ manifest }) => manifest);
    expect(manifests.length).toBeGreaterThan(6);
    for (const manifest of manifests.map(applicable)) {
      const { kind } = manifest;
      if (kind === 'Namespace' || ONLY_ON_EKS.includes(kind)) continue;
      expect({ kind, ...(await create(manifest, true)) }).toEqual({ kind, status: 201, warnings: '', message: '' });
    }
  });

  test('the API server rejects a custom object that violates its definition', async () => {
    const { only } = await render(CHOICES['KEDA, monitoring']);
    const manifest = only('ServiceMonitor') as Manifest;
    const spec = { ...(manifest['spec'] as object), endpoints: [{ port: 'metrics', interval: 'often' }] };
    const { status, message } = await create({ ...manifest, spec }, true);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(message).toMatch(/interval/);
  });

  describeUnless(whyMissing('kubectl'), 'with kubectl', () => {
    test('the commands of the runbook that add replicas work', async () => {
      for (const [kind, choice] of Object.entries({
        Deployment: 'nothing chosen',
        ScaledObject: 'KEDA, monitoring',
      })) {
        const { only } = await render(CHOICES[choice]);
        expect(await create(applicable(only(kind)))).toMatchObject({ status: 201 });
      }
      const file = join(scratch.directory, 'kubeconfig.json');
      writeFileSync(file, access.kubeconfig());
      const stack = { name: 'prod', directory: scratch.directory, env: { ...process.env, KUBECONFIG: file } };
      const first = 'kubectl --context prod --namespace triton scale deployment triton';
      const printed = await runBlock('runbook.md', stack, first, { replace: { '--context prod ': '' } });
      expect(printed.match(/\S+ (scaled|patched)$/gm)).toEqual([
        'deployment.apps/triton scaled',
        'scaledobject.keda.sh/triton patched',
      ]);
    });
  });
});

/** Replaces secrets with their values, and adds a name where Pulumi would generate one. */
function applicable(manifest: Record<string, unknown>): Manifest {
  const { metadata, data, stringData, ...rest } = manifest as Manifest & Record<'data' | 'stringData', Secret | object>;
  return {
    ...rest,
    metadata: metadata.name === undefined ? { ...metadata, name: 'made-up' } : metadata,
    ...secretFields({ data, stringData }),
  };
}

/** A secret value as render() marks it. */
interface Secret {
  secret: object;
}

/** The data of a Secret or a ConfigMap, with secret values in plain text. */
const secretFields = (fields: Record<string, Secret | object | undefined>): object =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, 'secret' in value ? value.secret : value]],
    ),
  );

function plural(kind: string): string {
  const name = kind.toLowerCase();
  if (name.endsWith('y')) return `${name.slice(0, -1)}ies`;
  return name.endsWith('s') ? `${name}es` : `${name}s`;
}
