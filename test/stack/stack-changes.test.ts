import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import type { KubernetesObject, V1Deployment, V1Service } from '@kubernetes/client-node';
import { exec } from '../../src/core/exec';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { defineKarpenterKinds, markReady } from '../support/karpenter';
import { serveLoadBalancers } from '../support/load-balancers';
import { whyMissing } from '../support/doc-commands';
import { IS_LONG } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { type TestStack, DEPLOYMENT, localStack, NAMESPACE, setKubeconfig, whyNoEngines } from '../support/stack';
import { defineStubCrds } from '../support/stub-crds';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 10 * 60_000;
const HIDDEN = 'a-token-that-is-hidden';

const AUTOSCALING = { minReplicas: 3, maxReplicas: 3 };
const LOAD_BALANCER = {
  exposure: { kind: 'internal-load-balancer', clientCidrs: ['10.1.0.0/16'], controllerCidrs: ['10.0.0.0/16'] },
};
const POOL = {
  name: 'a10g',
  instanceTypes: ['g5.xlarge'],
  nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'default' },
};

const WHY_NOT = whyNoEngines('karpenter') ?? whyMissing('kubectl', 'jq');

/** What happens to a stack in its second year: settings change back and forth, and people change its objects. */
describeUnless(WHY_NOT, 'a stack whose settings and objects change', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    await defineKarpenterKinds(plane);
    await defineStubCrds(plane, ['keda.sh', 'monitoring.coreos.com']);
    for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`, { labels: { 'triton-serving/gpu': 'true' } });
    stack = await localStack(scratch, plane);
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  const deployment = (namespace = NAMESPACE): Promise<V1Deployment> =>
    plane.client.apps.readNamespacedDeployment({ name: DEPLOYMENT, namespace });

  const replicas = async (namespace?: string): Promise<number | undefined> =>
    (await deployment(namespace)).spec?.replicas;

  const environment = async (): Promise<Record<string, string | undefined>> => {
    const { env = [] } = (await deployment()).spec?.template.spec?.containers[0] ?? {};
    return Object.fromEntries(env.map(({ name, value }) => [name, value]));
  };

  const kubectl = async (...args: string[]): Promise<void> => {
    const env = { ...process.env, KUBECONFIG: plane.access.kubeconfigFile() };
    await exec('kubectl', ['--namespace', NAMESPACE, ...args], { env });
  };

  /** Pulumi may return while the roll-out begins. A refresh during a roll-out finds an unhealthy Deployment. */
  const rolledOut = (): Promise<void> =>
    until('the roll-out is complete', async () => {
      const { metadata, spec, status } = await deployment();
      return (
        status?.observedGeneration === metadata?.generation &&
        status?.updatedReplicas === spec?.replicas &&
        status?.availableReplicas === spec?.replicas &&
        status?.replicas === spec?.replicas
      );
    });

  test(
    'up waits for a NodePool until Karpenter accepts it',
    async () => {
      stack.configure({ gpuNodePools: [POOL] });
      const running = stack.up();
      const pools = async (): Promise<KubernetesObject[]> =>
        (await plane.client.objects.list('karpenter.sh/v1', 'NodePool')).items;
      await until('Pulumi created the pool', async () => (await pools()).length === 1);
      await markReady(plane, { ...(await pools())[0], apiVersion: 'karpenter.sh/v1', kind: 'NodePool' }, false);
      const pods = await plane.pods(NAMESPACE).catch(() => []);
      await markReady(plane, { ...(await pools())[0], apiVersion: 'karpenter.sh/v1', kind: 'NodePool' });
      await running;
      expect(pods).toEqual([]);
      expect(await plane.readyPods(NAMESPACE)).toHaveLength(2);
      await stack.up('--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'an encrypted variable of the replicas is encrypted in the state, and in a Secret of the cluster',
    async () => {
      await stack.pulumi('config', 'set', '--stack', 'local', '--secret', '--path', 'environment.HF_TOKEN', HIDDEN);
      await stack.up();
      const state = await stack.pulumi('stack', 'export', '--stack', 'local');
      expect(state).toContain('HF_TOKEN');
      expect(state).not.toContain(HIDDEN);
      expect(state).not.toContain(Buffer.from(HIDDEN).toString('base64'));
      expect(JSON.stringify(await deployment())).not.toContain(HIDDEN);
    },
    STEP_MS,
  );

  test(
    'autoscaling is switched on and off, each in one up',
    async () => {
      stack.configure({ autoscaling: { ...AUTOSCALING } });
      await stack.up();
      // KEDA would have created this object. The real controller raises the number to minReplicas, and so owns the field.
      await kubectl('autoscale', 'deployment', DEPLOYMENT, '--name=keda-hpa-triton', '--min=3', '--max=3');
      await until('the autoscaler added a replica', async () => (await replicas()) === 3);
      await stack.up('--expect-no-changes');
      await kubectl('delete', 'hpa', 'keda-hpa-triton');

      stack.configure({ autoscaling: undefined, replicas: 1 });
      await stack.up();
      // The autoscaler may have changed the number again before it was deleted.
      await stack.up('--refresh');
      expect(await replicas()).toBe(1);
      await stack.up('--expect-no-changes');
      stack.configure({ replicas: 2 });
      await stack.up();
      expect(await replicas()).toBe(2);
    },
    STEP_MS,
  );

  /** What people do to the Deployment by hand. The short form has the first. */
  const BY_HAND: [string, () => Promise<void>][] = [
    [
      'edit',
      async () => {
        const editor = join(scratch.directory, 'editor');
        writeFileSync(
          editor,
          '#!/bin/sh\nsed -i "s/terminationGracePeriodSeconds: .*/terminationGracePeriodSeconds: 99/" "$1"\n',
          {
            mode: 0o755,
          },
        );
        process.env['KUBE_EDITOR'] = editor;
        await kubectl('edit', 'deployment', DEPLOYMENT).finally(() => delete process.env['KUBE_EDITOR']);
      },
    ],
    ['scale', () => kubectl('scale', 'deployment', DEPLOYMENT, '--replicas=1')],
    ['rollout undo', () => kubectl('rollout', 'undo', `deployment/${DEPLOYMENT}`)],
  ];

  test.each(BY_HAND.slice(0, IS_LONG ? undefined : 1))(
    'after kubectl %s, drift is found, the next up applies the settings, and a refresh restores everything',
    async (_, change) => {
      await rolledOut();
      await stack.preview('--refresh', '--expect-no-changes');
      await change();
      await rolledOut();
      await expect(stack.preview('--refresh', '--expect-no-changes')).rejects.toThrow(
        /kubernetes:apps\/v1:Deployment.*triton/s,
      );
      stack.configure({ environment: { TZ: 'UTC' }, replicas: 3, drainSeconds: 1 });
      await stack.up();
      expect(await replicas()).toBe(3);
      expect((await environment())['TZ']).toBe('UTC');
      expect((await deployment()).spec?.template.spec?.terminationGracePeriodSeconds).toBe(1 + 30 + 15);
      stack.configure({ environment: { TZ: 'EST' }, replicas: 2, drainSeconds: undefined });
      await stack.up('--refresh');
      await rolledOut();
      await stack.preview('--refresh', '--expect-no-changes');
    },
    STEP_MS,
  );

  test(
    'another class of the load balancer creates the new Service before the old one is deleted',
    async () => {
      const services = async (): Promise<V1Service[]> =>
        (await plane.client.core.listNamespacedService({ namespace: NAMESPACE })).items.filter(
          ({ spec }) => spec?.type === 'LoadBalancer',
        );
      serveLoadBalancers(plane, scratch);
      stack.configure(LOAD_BALANCER);
      expect(await stack.preview()).not.toContain('unknown:8000');
      await stack.up();
      const [first] = await services();
      const { externalUrl } = await stack.outputs();
      expect(externalUrl).toMatch(/^http:\/\/.+:8000$/);

      stack.configure({ exposure: { ...LOAD_BALANCER.exposure, loadBalancerClass: 'service.k8s.aws/nlb' } });
      const steps = (await stack.changes()).filter(({ urn }) => urn.endsWith('::triton-internal'));
      expect(steps.map(({ op }) => op)).toEqual(['create-replacement', 'replace', 'delete-replaced']);
      await stack.up();
      const [second, ...others] = await services();
      expect(others).toEqual([]);
      expect(second?.spec?.loadBalancerClass).toBe('service.k8s.aws/nlb');
      expect(second?.metadata?.name).not.toBe(first?.metadata?.name);
      stack.configure({ exposure: undefined });
      await stack.up();
    },
    STEP_MS,
  );

  if (IS_LONG) {
    test(
      'with GPUs for one set of replicas, the namespace changes while there are none',
      async () => {
        stack.configure({ replicas: 0 });
        await stack.up();
        stack.configure({ namespace: { name: 'vision' } });
        await stack.up();
        stack.configure({ replicas: 3 });
        await stack.up();
        expect(await replicas('vision')).toBe(3);
        const { items } = await plane.client.core.listNamespace();
        expect(items.map(({ metadata }) => metadata?.name)).not.toContain(NAMESPACE);
        stack.configure({ replicas: 0 });
        await stack.up();
        stack.configure({ namespace: undefined, replicas: 2 });
        await stack.up();
      },
      STEP_MS,
    );
  }

  test(
    'with an expired kubeconfig in the state, destroy works with --run-program',
    async () => {
      const { core, objects } = plane.client;
      const name = 'expiring';
      await core.createNamespacedServiceAccount({ namespace: 'default', body: { metadata: { name } } });
      await objects.create({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
        subjects: [{ kind: 'ServiceAccount', name, namespace: 'default' }],
      } as KubernetesObject);
      const metadata = { name, annotations: { 'kubernetes.io/service-account.name': name } };
      const type = 'kubernetes.io/service-account-token';
      await core.createNamespacedSecret({ namespace: 'default', body: { metadata, type } });
      const token = async (): Promise<string> =>
        Buffer.from(
          (await core.readNamespacedSecret({ name, namespace: 'default' })).data?.['token'] ?? '',
          'base64',
        ).toString();
      await until('the token is there', async () => (await token()) !== '');
      const expiring = plane.access.kubeconfig().replace(plane.access.token(), await token());
      await setKubeconfig(stack, expiring);
      await stack.up();
      await core.deleteNamespacedSecret({ name, namespace: 'default' });
      const file = join(scratch.directory, 'expired');
      writeFileSync(file, expiring);
      await until('the token expired', () =>
        exec('kubectl', ['--kubeconfig', file, 'get', 'pods']).then(
          () => false,
          (error: unknown) => String(error).includes('Unauthorized') || String(error).includes('logged in'),
        ),
      );
      await setKubeconfig(stack, plane.access.kubeconfig());
      await expect(stack.destroy()).rejects.toThrow(/Unauthorized|unreachable|logged in|credentials/);
      await stack.destroy('--run-program');
      expect(await stack.resources()).toEqual([]);
    },
    STEP_MS,
  );
});
