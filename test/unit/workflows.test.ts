import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { paths } from '../../src/core/paths';
import { registeredStack } from '../support/registered-stack';
import { Scratch } from '../support/temp-dir';

interface WorkflowStep {
  id?: string;
  uses?: string;
  run?: string;
  with?: Record<string, unknown>;
  env?: Record<string, string>;
}

interface Job {
  uses?: string;
  environment?: string;
  permissions?: Record<string, string>;
  'timeout-minutes'?: number;
  steps?: WorkflowStep[];
}

interface Workflow {
  permissions?: Record<string, string>;
  jobs: Record<string, Job>;
}

const read = (...path: string[]): string => readFileSync(join(paths.root, ...path), 'utf8');

/** File name -> workflow. */
const WORKFLOWS: Readonly<Record<string, Workflow>> = Object.fromEntries(
  readdirSync(join(paths.root, '.github', 'workflows')).map((file) => [
    file,
    load(read('.github', 'workflows', file)) as Workflow,
  ]),
);
/** Name, `file: job`, of every job that has steps of its own. */
const JOBS: [name: string, job: Job][] = Object.entries(WORKFLOWS).flatMap(([file, { jobs }]) =>
  Object.entries(jobs)
    .filter(([, job]) => job.uses === undefined)
    .map(([name, job]): [string, Job] => [`${file}: ${name}`, job]),
);
const TEXTS = [
  ...Object.keys(WORKFLOWS).map((file) => read('.github', 'workflows', file)),
  ...readdirSync(join(paths.root, '.github', 'actions')).map((name) => read('.github', 'actions', name, 'action.yml')),
  read('action.yml'),
];

const steps = (job: Job): WorkflowStep[] => job.steps ?? [];
const usesAction = (job: Job, action: string): WorkflowStep[] =>
  steps(job).filter(({ uses }) => uses?.startsWith(`${action}@`) === true);
/** The action of this repository takes the role that publishes. */
const publishes = (job: Job): boolean => steps(job).some(({ uses }) => uses === './');
const takesRole = (job: Job): boolean =>
  usesAction(job, 'aws-actions/configure-aws-credentials').length > 0 || publishes(job);
const publishesToNpm = (job: Job): boolean => steps(job).some(({ run }) => run?.startsWith('npm publish') === true);
const namesWith = (holds: (job: Job) => boolean): string[] =>
  JOBS.filter(([, job]) => holds(job)).map(([name]) => name);

test('actions of others are pinned by commit, with the release beside it, and each in one version', () => {
  const used = TEXTS.flatMap((text) => [...text.matchAll(/uses: (\S+)(.*)$/gm)]).map(([, action = '', rest = '']) => ({
    action,
    rest,
  }));
  const others = used.filter(({ action }) => !action.startsWith('./'));
  expect(others.length).toBeGreaterThan(15);
  for (const { action, rest } of others) {
    expect(`${action}${rest}`).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  }
  const pins = new Set(others.map(({ action }) => action));
  expect(new Set([...pins].map((pin) => pin.split('@')[0])).size).toBe(pins.size);
});

test('no workflow uses keys or secrets; roles are assumed with tokens', () => {
  for (const text of TEXTS) expect(text).not.toMatch(/aws-access-key|AWS_ACCESS_KEY|AWS_SECRET|secrets\.|PASSPHRASE/i);
});

test('only jobs that assume an AWS role or publish to npm get an id-token, and these have no write access to GitHub', () => {
  for (const { permissions } of Object.values(WORKFLOWS)) expect(permissions).toEqual({ contents: 'read' });
  const withToken = namesWith((job) => job.permissions?.['id-token'] === 'write');
  expect(withToken).toEqual(namesWith((job) => takesRole(job) || publishesToNpm(job)));
  expect(withToken.sort()).toEqual([
    'bucket.yml: check-bucket',
    'deploy.yml: models',
    'deploy.yml: prod',
    'deploy.yml: staging',
    'deploy.yml: staging-publish',
    'drift.yml: drift',
    'preview.yml: preview',
    'release.yml: publish',
  ]);
  expect(namesWith((job) => job.permissions?.['pull-requests'] === 'write')).toEqual(['preview.yml: comment']);
  for (const [, { permissions = {} }] of JOBS) {
    const { contents, ...more } = { contents: 'read', ...permissions };
    expect(contents).toBe('read');
    expect(Object.keys(more).length).toBeLessThan(2);
  }
});

test.each(JOBS)('%s: ends by itself, and leaves no token in its checkout', (_, job) => {
  expect(job['timeout-minutes']).toBeGreaterThan(0);
  for (const { with: options } of usesAction(job, 'actions/checkout')) {
    expect(options).toMatchObject({ 'persist-credentials': false });
  }
  const runsCode = job.permissions?.['pull-requests'] !== 'write';
  expect(usesAction(job, 'actions/checkout')).toHaveLength(runsCode ? 1 : 0);
  expect(steps(job).some(({ uses }) => uses?.startsWith('./') === true)).toBe(runsCode);
});

test('prod gets no random weights, unless a variable permits them', () => {
  const step = steps(WORKFLOWS['deploy.yml']?.jobs['prod'] ?? {}).find(({ run }) => run?.includes('promote') === true);
  const script = (step?.run ?? '').replace('npm run', 'echo');
  const promote = (allowed: string): string =>
    execFileSync('bash', ['--norc', '-ec', script], {
      env: { ALLOW_RANDOM_WEIGHTS: allowed, SOURCE: 's3://b/models' },
      encoding: 'utf8',
    }).trim();
  expect(step?.env).toEqual({
    ALLOW_RANDOM_WEIGHTS: '${{ vars.ALLOW_RANDOM_WEIGHTS }}',
    // Not from the state of staging, which the role that deploys prod cannot read.
    SOURCE: '${{ needs.staging.outputs.modelRepository }}',
  });
  expect(promote('')).toBe('promote -- --from s3://b/models --to prod --require-pretrained');
  expect(promote('false')).toBe('promote -- --from s3://b/models --to prod --require-pretrained');
  expect(promote('true')).toBe('promote -- --from s3://b/models --to prod');
});

test.each(['staging', 'prod'])('%s: the subjects of the roles that deploy and publish differ', (stack) => {
  const { config } = load(read(`Pulumi.${stack}.yaml`)) as { config: Record<string, unknown> };
  const subjects = config['triton-serving:publisherSubjects'] as string[];
  expect(subjects).toEqual([expect.stringMatching(new RegExp(`^repo:[^/*]+/[^/*]+:environment:${stack}-publish$`))]);
  const job = WORKFLOWS['deploy.yml']?.jobs[stack];
  expect(job?.environment).toBe(stack);
  const text = steps(job ?? {})
    .map(({ run }) => run ?? '')
    .join('\n');
  expect(text).toContain(`pulumi up --yes --stack ${stack} --policy-pack policy`);
});

test('a job assumes one role, and the job that publishes does not run in the environment that deploys', () => {
  for (const [name, job] of JOBS) {
    const taken = usesAction(job, 'aws-actions/configure-aws-credentials').length + (publishes(job) ? 1 : 0);
    expect([name, taken]).toEqual([name, takesRole(job) ? 1 : 0]);
  }
  const jobs: Record<string, Job> = WORKFLOWS['deploy.yml']?.jobs ?? {};
  expect(jobs['staging-publish']?.environment).toBe('staging-publish');
  expect(JSON.stringify(jobs['staging'])).not.toContain('sync-models');
  expect(JSON.stringify(jobs['staging-publish'])).not.toMatch(/pulumi|DEPLOY_ROLE/);
});

describe('the action that publishes', () => {
  const { runs } = load(read('action.yml')) as { runs: { steps: WorkflowStep[] } };
  const script = runs.steps.find(({ run }) => run !== undefined);
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  /** Runs the script with a node that prints its arguments. */
  function run(env: Record<string, string>): { status: number | null; stdout: string; kubeconfig: string } {
    const kubeconfig = join(scratch.directory, 'kubeconfig');
    const stubs = 'node() { cat "$KUBECONFIG" >&2; echo "node $*"; return "${FAILS:-0}"; }';
    const { status, stdout } = spawnSync('bash', ['--norc', '-eo', 'pipefail', '-c', `${stubs}\n${script?.run}`], {
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: kubeconfig,
        KUBECONFIG_BASE64: Buffer.from('kind: Config').toString('base64'),
        PROGRAM: 'run.mjs',
        ...{ BUCKET: 's3://b/models', REGION: 'r', SELECTOR: 'app=t', NAMESPACE: 'n' },
        ...{ REPO: 'my models', EXCLUDE: '', ARGUMENTS: '' },
        ...env,
      },
      encoding: 'utf8',
    });
    return { status, stdout: stdout.replaceAll(kubeconfig, 'FILE'), kubeconfig };
  }
  const target = '--bucket s3://b/models --region r --selector app=t --namespace n --kubeconfig FILE';

  test('publishes, compares, and leaves no kubeconfig behind', () => {
    const { status, stdout, kubeconfig } = run({});
    expect(status).toBe(0);
    expect(stdout.split('\n')).toEqual([
      `node run.mjs sync-models ${target} --repo my models`,
      `node run.mjs status ${target}`,
      '',
    ]);
    expect(existsSync(kubeconfig)).toBe(false);
  });

  test('passes on exclude and each line of arguments', () => {
    const { stdout } = run({ EXCLUDE: 'a,b', ARGUMENTS: '--message\na message\n\n--prune\n' });
    expect(stdout).toContain('--repo my models --exclude a,b --message a message --prune\n');
  });

  test('a publish that fails fails the job, and leaves no kubeconfig behind', () => {
    const { status, stdout, kubeconfig } = run({ FAILS: '3' });
    expect([status, stdout.includes('status')]).toEqual([3, false]);
    expect(existsSync(kubeconfig)).toBe(false);
  });
});

describe('the outputs of the job staging', () => {
  const script = steps(WORKFLOWS['deploy.yml']?.jobs['staging'] ?? {}).find(({ id }) => id === 'stack')?.run ?? '';
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  /** Runs the step with a `pulumi` that prints these outputs. */
  function run(name: string, kubeconfig: unknown): { code: number | null; stdout: string; outputs: string } {
    const file = (what: string): string => join(scratch.directory, `${name}-${what}`);
    const outputs = { modelRepository: 's3://b/models', region: 'r', podSelector: 'app=triton', namespace: 'triton' };
    const more = { publisherRoleArn: 'arn', anotherSecret: 'hidden', kubeconfig };
    writeFileSync(file('pulumi'), JSON.stringify({ ...outputs, ...more }));
    const { status, stdout } = spawnSync('bash', ['--norc', '-ec', `pulumi() { cat "$STACK"; }\n${script}`], {
      env: {
        PATH: process.env['PATH'],
        STACK: file('pulumi'),
        OUTPUTS: file('outputs'),
        KUBECONFIG_FILE: file('kubeconfig'),
        GITHUB_OUTPUT: file('github'),
      },
      encoding: 'utf8',
    });
    return { code: status, stdout, outputs: existsSync(file('github')) ? readFileSync(file('github'), 'utf8') : '' };
  }

  test('have the kubeconfig, which signs in with a program, but no other secret', () => {
    const kubeconfig = { users: [{ name: 'a', user: { exec: { command: 'aws', args: ['eks', 'get-token'] } } }] };
    for (const [name, value] of Object.entries({ text: JSON.stringify(kubeconfig), object: kubeconfig })) {
      const { code, outputs } = run(name, value);
      expect(code).toBe(0);
      const [, encoded = ''] = /^kubeconfig=(.*)$/m.exec(outputs) ?? [];
      expect(JSON.parse(Buffer.from(encoded, 'base64').toString())).toEqual(kubeconfig);
      expect(outputs).toContain('modelRepository=s3://b/models\n');
      expect(outputs).not.toContain('hidden');
    }
  });

  test.each([
    ['token', JSON.stringify({ users: [{ user: { token: 'a' } }] })],
    ['key', 'users:\n- user:\n    client-key-data: YQ==\n'],
  ])('have no kubeconfig with credentials: %s', (name, kubeconfig) => {
    expect(run(name, kubeconfig)).toEqual({
      code: 1,
      stdout: expect.stringContaining('::error::the kubeconfig of staging contains credentials') as string,
      outputs: '',
    });
  });
});

test.each(['staging', 'prod'])('%s: the session and the job outlast the longest wait for a rollout', async (stack) => {
  const job = WORKFLOWS['deploy.yml']?.jobs[stack] as Job;
  const [role] = usesAction(job, 'aws-actions/configure-aws-credentials');
  const session = Number(role?.with?.['role-duration-seconds']);
  const { resources } = await registeredStack(stack);
  const waits = resources.flatMap(({ type, timeouts }) => (type.endsWith(':Deployment') ? [timeouts.update] : []));
  expect(waits).toHaveLength(1);
  expect(waits[0]).toMatch(/^\d+s$/);
  // Beside the wait, a first "pulumi up" creates the network and the cluster, in about 15 minutes.
  expect(session).toBeGreaterThan(Number(waits[0]?.slice(0, -1)) + 15 * 60);
  expect((job['timeout-minutes'] ?? 0) * 60).toBeGreaterThanOrEqual(session);
});
