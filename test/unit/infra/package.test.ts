import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bucket } from '@pulumi/aws/s3/bucket';
import * as pulumi from '@pulumi/pulumi';
import { TritonServer } from '../../../infra/components';
import { construct } from '../../../infra/package/construct';
import { packageSchema } from '../../../infra/package/schema';
import { TRITON_FIELDS } from '../../../infra/settings/triton-fields';
import { paths } from '../../../src/core/paths';
import { ACCOUNT, registered, type RegisteredStack } from '../../support/registered-stack';

const token = (name: string): string => `triton-serving:index:${name}`;

const SERVER = {
  modelRepository: 's3://models-bucket/faces',
  region: 'eu-west-1',
  credentials: { roleArn: 'arn:aws:iam::111122223333:role/faces' },
};

/** Runs a program that creates one component, which may use a bucket. */
const run = (
  kind: string,
  inputs: (bucket: Bucket) => pulumi.Inputs,
  { isPreview = false, ...options }: pulumi.ComponentResourceOptions & { isPreview?: boolean } = {},
): Promise<RegisteredStack> =>
  registered(
    () => {
      const made = construct('faces', token(kind), inputs(new Bucket('bucket')), options);
      const state = made.then(({ state }) => state).catch((error: unknown) => (error as Error).message);
      return { state: pulumi.output(state) };
    },
    'other',
    isPreview,
  );

/** The message about wrong arguments, without its first line. */
const refused = async (kind: string, inputs: pulumi.Inputs): Promise<string[]> => {
  const { outputs } = await run(kind, () => inputs);
  return (outputs['state'] as string).split(/\n +(?! |->)/).slice(1);
};

const ROLE = {
  bucketArn: 'arn:aws:s3:::bucket',
  oidcProviderArn: `arn:aws:iam::${ACCOUNT}:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABCD`,
};

afterEach(() => jest.restoreAllMocks());

test('the schema has every setting of the replicas, with its sentence', () => {
  const { resources } = packageSchema('1.2.3') as {
    resources: Record<string, { inputProperties: Record<string, { description: string }>; requiredInputs: string[] }>;
  };
  const { inputProperties = {}, requiredInputs } = resources[token('TritonServer')] ?? {};
  expect(Object.keys(inputProperties)).toEqual(expect.arrayContaining(Object.keys(TRITON_FIELDS)));
  expect(requiredInputs).toEqual(expect.arrayContaining(['modelRepository', 'region']));
  expect(inputProperties['replicas']?.description).toBe(
    'Number of replicas if autoscaling is empty. Allowed: a whole number from 0 to 1000. Default: 2.',
  );
});

test('the examples have the version of this package, and the version of Pulumi that it has', () => {
  type Package = { version: string; dependencies: Record<string, string> };
  const read = (path: string): string => readFileSync(join(paths.root, path), 'utf8');
  const [own, typescript, project] = ['', 'examples/typescript', 'examples/new-project'].map(
    (folder) => JSON.parse(read(join(folder, 'package.json'))) as Package,
  );
  const sdk = { '@pulumi/pulumi': own?.dependencies['@pulumi/pulumi'] };
  expect(typescript?.dependencies).toEqual(sdk);
  expect(project?.dependencies).toEqual({ ...sdk, 'triton-serving': own?.version });
  expect(read('examples/python/requirements.txt')).toBe(`pulumi==${sdk['@pulumi/pulumi']}\n`);
});

describe('TritonServer', () => {
  test('creates the objects of the component in TypeScript, and has the outputs of its schema', async () => {
    const options = { replicas: 3, pod: { nodeSelector: { gpu: 'L4' } }, environment: { LEVEL: 'debug' } };
    const objects = ({ resources }: RegisteredStack): unknown[] =>
      resources
        .filter(({ type }) => !type.startsWith('aws:'))
        .map(({ type, name, parent, inputs }) => ({ type, name, parent, inputs }));
    const ours = await registered(() => {
      return new TritonServer('faces', { ...SERVER, ...options });
    }, 'other');
    const theirs = await run('TritonServer', () => ({ ...SERVER, ...options }));
    expect(objects(ours).length).toBeGreaterThan(9);
    expect(objects(theirs)).toEqual(objects(ours));
    expect(theirs.outputs['state']).toMatchObject({ namespace: 'faces', serviceUrl: 'http://faces.faces.svc:8000' });
  });

  test('reports all wrong arguments together, by the name of each', async () => {
    const { modelRepository, region, credentials } = SERVER;
    expect(await refused('TritonServer', { modelRepository, credentials, replicas: 'two', autoscalin: {} })).toEqual([
      expect.stringMatching(/: autoscalin: unknown setting\n {4}-> did you mean autoscaling\?$/),
      expect.stringMatching(/: region: is missing; allowed: /),
      'TritonServer faces: replicas: is "two"; allowed: a whole number from 0 to 1000',
    ]);
    const incomplete = { modelRepository, region, credentials: { accessKeyId: 'id' } };
    expect(await refused('TritonServer', incomplete)).toEqual([expect.stringMatching(/: credentials/)]);
  });

  test('keeps secret texts secret, and waits for the resources whose outputs it gets', async () => {
    const made = await run('TritonServer', (bucket) => ({
      ...SERVER,
      region: bucket.arn.apply(() => 'eu-west-1'),
      credentials: { roleArn: pulumi.secret(SERVER.credentials.roleArn) },
      secretEnvironment: pulumi.secret({ TOKEN: 'of-a-test' }),
    }));
    const { inputs, marked } = made.only('kubernetes:apps/v1:Deployment');
    expect(JSON.stringify(inputs)).not.toContain('of-a-test');
    expect(marked['spec']).toHaveProperty('secret');
    expect(made.only(token('TritonServer')).dependencies).toEqual([made.only('aws:s3/bucket:Bucket').urn]);
  });

  test('refuses a secret whose value would be stored as clear text, and does not show it', async () => {
    const environment = { TOKEN: pulumi.secret('of-a-test') };
    const secret = { extraArguments: [pulumi.secret('--of=a-test')], replicas: pulumi.secret(3), environment };
    const allowed = 'allowed: a value that is not secret, because the state would contain it as clear text';
    expect((await refused('TritonServer', { ...SERVER, ...secret })).sort()).toEqual([
      `TritonServer faces: environment: is secret; ${allowed}`,
      `TritonServer faces: extraArguments: is secret; ${allowed}`,
      `TritonServer faces: replicas: is secret; ${allowed}`,
    ]);
  });

  test('a preview has all objects, also if it does not know locations, keys and texts in environment yet', async () => {
    const inputs = ({ bucketDomainName: host }: { bucketDomainName: pulumi.Input<string> }) => ({
      modelRepository: pulumi.interpolate`s3://${host}/models`,
      region: SERVER.region,
      endpointUrl: pulumi.interpolate`http://${host}:9000`,
      credentials: { accessKeyId: 'id', secretAccessKey: pulumi.secret('key') },
      environment: { DB_HOST: host, LEVEL: 'debug' },
    });
    const names = (made: RegisteredStack): string[] => made.resources.map(({ type, name }) => `${type} ${name}`);
    const previewed = await run('TritonServer', inputs, { isPreview: true });
    expect(names(previewed)).toEqual(names(await run('TritonServer', () => inputs({ bucketDomainName: 'storage' }))));
    const spec = JSON.stringify(previewed.only('kubernetes:apps/v1:Deployment').inputs['spec']);
    expect(spec).toContain('{"name":"LEVEL","value":"debug"}');
    expect(spec).toContain('"name":"DB_HOST"');
  });

  test.each([
    ['image', (text: pulumi.Output<string>) => ({ image: text })],
    ['extraArguments', (text: pulumi.Output<string>) => ({ extraArguments: [text] })],
    ['environment', (text: pulumi.Output<string>) => ({ environment: text.apply((DB_HOST) => ({ DB_HOST })) })],
  ])('a preview that does not know %s warns that it leaves out the objects', async (name, inputs) => {
    const warn = jest.spyOn(pulumi.log, 'warn').mockResolvedValue();
    const unknown = ({ bucketDomainName }: Bucket) => ({ ...SERVER, ...inputs(bucketDomainName) });
    const made = await run('TritonServer', unknown, { isPreview: true });
    const text = expect.stringMatching(
      new RegExp(`because ${name} is not known yet.*"pulumi up" keeps them`),
    ) as string;
    expect(warn.mock.calls).toEqual([[text, expect.anything()]]);
    expect(made.resources.map(({ type }) => type)).not.toContain('kubernetes:apps/v1:Deployment');
  });
});

test.each([
  ['ModelRepository', 'prefix', 'faces/'],
  ['ModelRepository', 'prefix', 'a*'],
  ['ModelRepository', 'prefix', 'faces.releases'],
  ['TritonAccess', 'bucketArn', 's3://bucket'],
  ['TritonAccess', 'keyArn', 'alias/key'],
  ['TritonAccess', 'oidcProviderArn', 'oidc'],
  ['TritonAccess', 'namespace', 'Not valid'],
])('%s refuses the %s %s', async (kind, name, value) => {
  const role = kind === 'TritonAccess' ? ROLE : {};
  expect(await refused(kind, { ...role, [name]: value })).toEqual([
    expect.stringContaining(`${kind} faces: ${name}: is "${value}"`),
  ]);
});

test('a repository and the role for it need no account, and the option protect reaches what holds data', async () => {
  const reader = 'arn:aws:iam::111122223333:role/deploy';
  const made = await run('ModelRepository', () => ({ prefix: 'faces', bucketReaders: [reader] }), { protect: true });
  expect(made.outputs['state']).toMatchObject({
    url: expect.stringMatching(/^s3:\/\/.+\/faces$/) as string,
    region: 'us-east-1',
  });
  const { inputs } = made.only('aws:s3/bucketPolicy:BucketPolicy', 'faces');
  expect(inputs['policy']).toContain(ACCOUNT);
  expect(inputs['policy']).toContain(reader);
  expect(made.only('aws:s3/bucket:Bucket', 'faces').protect).toBe(true);
  expect(made.only('aws:kms/key:Key').protect).toBe(true);

  // The role of the readers may be created later.
  const later = await run('ModelRepository', ({ bucketDomainName }) => ({ bucketReaders: [bucketDomainName] }), {
    isPreview: true,
  });
  expect(later.all('aws:s3/bucketPolicy:BucketPolicy')).toHaveLength(2);

  const access = await run('TritonAccess', ({ arn }) => ({
    bucketArn: arn,
    oidcProviderArn: ROLE.oidcProviderArn,
  }));
  expect(access.only('aws:iam/role:Role').inputs['assumeRolePolicy']).toContain('system:serviceaccount:faces:faces"');
});
