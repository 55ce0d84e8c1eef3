import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensureKubernetesSchemas } from '../../tools/toolchain/kubernetes-schemas';
import { ensurePython } from '../../src/install/python';
import { ensureCheckov, ensureKubeconform, ensureKubeScore, type Checkov } from '../../tools/toolchain/scanners';
import { ServiceReference } from '../support/aws-service-reference';
import { describeUnless } from '../support/describe-unless';
import type { Statement } from '../support/iam';
import { getManifests, writeManifests } from '../support/manifests';
import { registeredStack, type RegisteredResource, type RegisteredStack } from '../support/registered-stack';
import {
  scanWithCheckov,
  scanWithKubeconform,
  scanWithKubeScore,
  writePlan,
  type ScannerFinding,
} from '../support/scanners';
import { Scratch } from '../support/temp-dir';
import { terraformPlan } from '../support/terraform-plan';
import { isException, MAXIMUM_EXCEPTIONS, EXCEPTIONS } from '../support/scanner-exceptions';

const BUILD_MS = 30 * 60_000;

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Kinds of EKS Auto Mode without a published schema. */
const WITHOUT_SCHEMA = ['NodeClass', 'IngressClassParams'];

interface Scanned {
  of: string;
  changes: Readonly<Record<string, unknown>>;
  /** Why the manifests of the stack are not scanned. */
  planOnly?: string;
}

/** The stacks of the repository, and variants with optional settings. */
const STACKS: Readonly<Record<string, Scanned>> = {
  staging: { of: 'staging', changes: {} },
  prod: { of: 'prod', changes: {} },
  'prod behind an ingress': {
    of: 'prod',
    changes: {
      exposure: {
        kind: 'ingress',
        clientCidrs: ['203.0.113.0/24'],
        host: 'triton.example.com',
        certificateArn: 'arn:aws:acm:us-east-1:111122223333:certificate/1',
      },
    },
  },
  'prod with a pruner': {
    of: 'prod',
    changes: {
      prunerSubjects: ['repo:acme/serving:environment:prune'],
      gpuNodePools: [
        {
          name: 'a10g',
          instanceTypes: ['g5.2xlarge'],
          disruption: {
            budgets: [{ nodes: '1' }, { nodes: '0', schedule: '0 6 * * *', duration: '20h', reasons: ['Drifted'] }],
          },
        },
      ],
    },
  },
  'staging on managed node groups': {
    of: 'staging',
    changes: {
      gpuNodePools: [{ name: 'fixed', instanceTypes: ['g5.xlarge'], capacityTypes: ['on-demand'], nodes: 2 }],
    },
    planOnly: 'the device plugin works on the node itself, which scanners take for an attack',
  },
};

const step = new Progress(process.stderr, true).step('');
const noGo = whyNoGo(['kube-score', 'kubeconform', 'kubernetes']);

/** A Deployment with many faults, including an unknown field. */
const BARE = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'bare' },
  spec: {
    selector: { matchLabels: { app: 'bare' } },
    template: {
      metadata: { labels: { app: 'bare' } },
      spec: { containers: [{ name: 'bare', image: 'tritonserver:latest', imagePolicy: 'Always' }] },
    },
  },
};

/** Findings of all scanners that an exception permits. */
const permitted: ScannerFinding[] = [];

function unwaived(findings: readonly ScannerFinding[]): ScannerFinding[] {
  permitted.push(...findings.filter(isException));
  return findings.filter((finding) => !isException(finding));
}

describe.each(Object.entries(STACKS))('%s', (name, { of, changes, planOnly }) => {
  const directory = join(scratch.directory, name);
  const folders = { manifests: join(directory, 'manifests'), plan: join(directory, 'plan') };
  let stack: RegisteredStack;
  const files = (): string[] => readdirSync(folders.manifests).map((file) => join(folders.manifests, file));

  beforeAll(async () => {
    stack = await registeredStack(of, changes);
    for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true });
    writeManifests(getManifests(stack.resources), folders.manifests);
    writePlan(terraformPlan(stack.resources), folders.plan);
  });

  describe('checkov', () => {
    let checkov: Checkov;
    beforeAll(async () => {
      checkov = await ensureCheckov(await ensurePython(step), step);
    }, BUILD_MS);

    if (planOnly === undefined) {
      test('checkov accepts the manifests', async () => {
        const { passed, failed } = await scanWithCheckov(checkov, 'kubernetes', folders.manifests);
        expect(passed).toBeGreaterThan(50);
        expect(unwaived(failed)).toEqual([]);
      });
    }

    test('checkov accepts the plan', async () => {
      const { passed, failed } = await scanWithCheckov(checkov, 'terraform_plan', folders.plan);
      expect(passed).toBeGreaterThan(50);
      expect(unwaived(failed)).toEqual([]);
    });

    test("the roles' policies name actions that exist, and conditions that requests meet", () => {
      const reference = new ServiceReference(checkov.packages);
      const policies = stack.resources.filter(({ type }) => type === 'aws:iam/rolePolicy:RolePolicy');
      expect(policies.length).toBeGreaterThan(1);
      const problems = policies.flatMap(({ name: role, inputs }) => {
        const { Statement } = JSON.parse(inputs['policy'] as string) as { Statement: Statement[] };
        return Statement.flatMap((statement) =>
          reference.getProblems(statement).map((problem) => `${role}: ${problem}`),
        );
      });
      expect(problems).toEqual([]);
    });
  });

  if (planOnly !== undefined) return;
  describeUnless(noGo, 'the manifests', () => {
    test(
      'kube-score accepts them',
      async () => {
        const { passed, failed } = await scanWithKubeScore(await ensureKubeScore(step), files(), '1.36');
        expect(passed).toBeGreaterThan(20);
        expect(unwaived(failed)).toEqual([]);
      },
      BUILD_MS,
    );

    test(
      'kubeconform accepts them',
      async () => {
        const [program, schemas] = [await ensureKubeconform(step), await ensureKubernetesSchemas(step)];
        const { passed, failed, skipped } = await scanWithKubeconform(program, files(), schemas, WITHOUT_SCHEMA);
        expect(unwaived(failed)).toEqual([]);
        const skippable = getManifests(stack.resources).filter(({ kind }) => WITHOUT_SCHEMA.includes(kind));
        expect({ passed, skipped }).toEqual({ passed: files().length - skippable.length, skipped: skippable.length });
      },
      BUILD_MS,
    );
  });
});

describe('the scanners report the faults of an invalid Deployment', () => {
  const directory = join(scratch.directory, 'bare');
  const plan = join(scratch.directory, 'bare-plan');
  let files: string[];

  beforeAll(() => {
    for (const folder of [directory, plan]) mkdirSync(folder, { recursive: true });
    files = writeManifests([BARE], directory);
    const bucket = { type: 'aws:s3/bucket:Bucket', name: 'models', inputs: { bucket: 'models' }, custom: true };
    writePlan(terraformPlan([{ ...bucket, propertyDependencies: {} } as unknown as RegisteredResource]), plan);
  });

  test(
    'checkov',
    async () => {
      const checkov = await ensureCheckov(await ensurePython(step), step);
      const manifests = await scanWithCheckov(checkov, 'kubernetes', directory);
      expect(manifests.failed.map(({ check }) => check)).toEqual(expect.arrayContaining(['CKV_K8S_14', 'CKV_K8S_20']));
      const { failed } = await scanWithCheckov(checkov, 'terraform_plan', plan);
      expect(failed.map(({ check }) => check)).toEqual(expect.arrayContaining(['CKV_AWS_21', 'CKV2_AWS_6']));
    },
    BUILD_MS,
  );

  describeUnless(noGo, 'with Go', () => {
    test(
      'kube-score and kubeconform',
      async () => {
        const { failed } = await scanWithKubeScore(await ensureKubeScore(step), files, '1.36');
        expect(failed.map(({ check }) => check)).toEqual(
          expect.arrayContaining(['container-image-tag', 'pod-networkpolicy']),
        );
        const schemas = await ensureKubernetesSchemas(step);
        const conformity = await scanWithKubeconform(await ensureKubeconform(step), files, schemas, []);
        expect(conformity.failed.map(({ what }) => what).join()).toContain('imagePolicy');
      },
      BUILD_MS,
    );
  });
});

test('every exception has a reason and is needed', () => {
  expect(EXCEPTIONS.length).toBeLessThanOrEqual(MAXIMUM_EXCEPTIONS);
  for (const { reason } of EXCEPTIONS) expect(reason).toMatch(/^.{40,}\.$/s);
  const unneeded = EXCEPTIONS.filter(({ check }) => !permitted.some((finding) => finding.check === check));
  expect(unneeded).toEqual([]);
});
