import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { ensureKubernetesPlugin } from '../../tools/toolchain/pulumi';
import { describeUnless } from '../support/describe-unless';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { TestStack, LOCAL_KEYS, whyNoEngines } from '../support/stack';

const BUILD_MS = 60 * 60_000;
const PACK = ['--policy-pack', join(paths.root, 'policy')];

/** A cluster that no one can reach, which a preview does not need. */
const KUBECONFIG = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'none',
  contexts: [{ name: 'none', context: { cluster: 'none', user: 'none' } }],
  clusters: [{ name: 'none', cluster: { server: 'https://127.0.0.1:9' } }],
  users: [{ name: 'none', user: {} }],
});

/**
 * Two Deployments and a role that violate policies. The image of the second Deployment is unknown in a preview. The role is a
 * component with the type of a role, so that the test needs no AWS.
 */
const PROGRAM = `
const k8s = require('@pulumi/kubernetes');
const pulumi = require('@pulumi/pulumi');
const provider = new k8s.Provider('manifests', { renderYamlToDirectory: process.env.MANIFESTS });
const deployment = (name, image) => new k8s.apps.v1.Deployment(name, {
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name, image, command: ['tritonserver'] }] },
    },
  },
}, { provider });
const first = deployment('first', 'tritonserver:latest');
deployment('second', first.id);
const allow = (statement) => JSON.stringify({ Statement: { Effect: 'Allow', ...statement } });
new pulumi.ComponentResource('aws:iam/role:Role', 'nodes').registerOutputs({
  assumeRolePolicy: allow({ Principal: { Service: 'ec2.amazonaws.com' } }),
  inlinePolicies: [{ policy: allow({ Action: 's3:*' }) }],
});
`;

describeUnless(whyNoEngines(), 'the policy pack in a real Pulumi', () => {
  let scratch: Scratch;
  beforeEach(() => (scratch = new Scratch()));
  afterEach(() => scratch.clean());

  test(
    'accepts the local stack, whose preview warns of models that do not fit',
    async () => {
      const stack = await TestStack.create(scratch, 'local', {
        plugins: [await ensureKubernetesPlugin()],
        config: { existingCluster: { context: 'none' }, s3: { endpoint: 'http://127.0.0.1:9' }, gpusPerPod: 1 },
        secrets: { ...LOCAL_KEYS, 'existingCluster.kubeconfig': KUBECONFIG },
      });
      rmSync(join(stack.directory, 'model-repo'));
      writeRepository(join(stack.directory, 'model-repo'), {
        'm/config.pbtxt': 'backend: "python"\nmax_batch_size: 0\ninstance_group { count: 300 kind: KIND_CPU }\n',
        'm/1/model.py': '',
      });
      const said = await stack.preview(...PACK);
      expect(said).toMatch(/warning: the models need about 8\.\d GiB of main memory .*\(m .*resources\.memoryGiB\)/);
      expect(said).toMatch(/Policy Packs run:\s+Name\s+Version\s+triton-serving\S*\s+\d/);
      expect(said).not.toMatch(/mandatory|advisory|can't run policy/);
    },
    BUILD_MS,
  );

  test(
    'rejects a stack that violates rules, and tolerates unknown values',
    async () => {
      const env = { MANIFESTS: join(scratch.directory, 'manifests') };
      const stack = await TestStack.create(scratch, 'local', { plugins: [await ensureKubernetesPlugin()], env });
      const project = join(stack.directory, 'Pulumi.yaml');
      writeFileSync(project, readFileSync(project, 'utf8').replace('infra/start.cjs', 'mistakes.cjs'));
      writeFileSync(join(stack.directory, 'mistakes.cjs'), PROGRAM);
      const said = await stack.preview(...PACK).catch((error: unknown) => String(error));
      expect(said).toContain('error: preview failed');
      for (const name of ['first', 'second']) {
        const about = `kubernetes:apps/v1:Deployment "${name}": `;
        expect(said).toContain(`${about}spec.template.spec.containers[0].lifecycle.preStop is not set; add {`);
      }
      expect(said).toContain(
        'aws:iam/role:Role "nodes": inlinePolicies[0].policy.Statement.Action is "s3:*"; grant it to',
      );
      expect(said).not.toContain("can't run policy");
    },
    BUILD_MS,
  );
});
