import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bucket } from '@pulumi/aws/s3/bucket';
import * as pulumi from '@pulumi/pulumi';
import { EXAMPLES } from '../../../infra/package/arguments';
import { merge } from '../../../infra/package/children';
import { COMPONENTS } from '../../../infra/package/components';
import { construct } from '../../../infra/package/construct';
import { COMMON_ARGUMENTS, packageSchema } from '../../../infra/package/schema';
import { TritonServer } from '../../../infra/components';
import { CONFIG_FIELDS } from '../../../infra/settings/config';
import { readFields } from '../../../infra/settings/reader';
import { paths } from '../../../src/core/paths';
import { ProblemList } from '../../../src/core/problems';
import { ACCOUNT, registered, type RegisteredStack } from '../../support/registered-stack';

interface Property {
  type?: string;
  $ref?: string;
  description: string;
  secret?: boolean;
}
interface Resource {
  inputProperties: Record<string, Property>;
  requiredInputs: string[];
  properties: Record<string, Property>;
}
const { resources, types } = packageSchema('1.2.3') as {
  resources: Record<string, Resource>;
  types: Record<string, { properties: Record<string, Property>; required: string[] }>;
};

const token = (name: string): string => `triton-serving:index:${name}`;
const SERVER = {
  modelRepository: 's3://models-bucket/faces',
  region: 'eu-west-1',
  roleArn: 'arn:aws:iam::111122223333:role/faces',
};

/** What a component of the package registers. */
const make = (
  kind: string,
  inputs: pulumi.Inputs,
  options: pulumi.ComponentResourceOptions = {},
): Promise<RegisteredStack> =>
  registered(() => {
    const made = construct('faces', token(kind), inputs, options);
    return { state: pulumi.output(made.then(({ state }) => state)) };
  }, 'other');

/** `PROPERTY: REASON` of each wrong argument. */
const wrong = async (kind: string, inputs: pulumi.Inputs): Promise<string[]> => {
  const refused = await construct('faces', token(kind), inputs, {}).catch((error: unknown) => error);
  expect(pulumi.InputPropertiesError.isInstance(refused)).toBe(true);
  const { errors } = refused as { errors: pulumi.InputPropertyErrorDetails[] };
  return errors.map(({ propertyPath, reason }) => `${propertyPath}: ${reason}`).sort();
};

/** What a component registers in a preview, if it gets a text that the preview does not know. */
const preview = (kind: string, inputs: (unknown: pulumi.Output<string>) => pulumi.Inputs): Promise<RegisteredStack> =>
  registered(
    () => {
      const unknown = new Bucket('created-later').bucketDomainName;
      const made = construct('faces', token(kind), inputs(unknown), {});
      return { isDone: pulumi.output(made.then(() => true)) };
    },
    'other',
    true,
  );

describe('the schema', () => {
  test('has these components, arguments, types and outputs, of which programs of users depend', () => {
    const line = ([key, { type, $ref, secret }]: [string, Property]): string =>
      `${key}: ${type ?? $ref ?? ''}${secret === true ? ' (secret)' : ''}`;
    const names = Object.entries(resources).map(([name, { inputProperties, requiredInputs, properties }]) => [
      name,
      {
        required: requiredInputs,
        arguments: Object.entries(inputProperties).map(line),
        outputs: Object.entries(properties).map(line),
      },
    ]);
    const members = Object.entries(types).map(([name, { properties, required }]) => [
      name,
      Object.keys(properties).map((key) => (required.includes(key) ? key : `${key}?`)),
    ]);
    expect({ ...Object.fromEntries(names), ...Object.fromEntries(members) }).toMatchSnapshot();
  });

  test.each(Object.keys(COMPONENTS))('%s explains each argument with its default and an example', (name) => {
    const { inputProperties = {}, requiredInputs = [] } = resources[token(name)] ?? {};
    for (const [key, { description }] of Object.entries(inputProperties)) {
      expect(description).toContain(`Example: ${JSON.stringify(EXAMPLES[key])}`);
      const isSaid = requiredInputs.includes(key) || key in COMMON_ARGUMENTS;
      if (!isSaid) expect([key, description]).toEqual([key, expect.stringMatching(/Defaults?:|Empty:|Required/)]);
    }
  });

  test.each(Object.entries(COMPONENTS))('the examples of %s are valid', (name, { fields }) => {
    const problems = new ProblemList(name);
    // The namespace of TritonAccess is a text.
    const examples = Object.entries(EXAMPLES).filter(
      ([key]) => key in fields && (key !== 'namespace' || name === 'TritonServer'),
    );
    readFields(fields, Object.fromEntries(examples), problems);
    expect(problems.problems).toEqual([]);
  });

  test('an argument with the name of a setting has its rules', () => {
    for (const [name, { fields }] of Object.entries(COMPONENTS)) {
      for (const [key, field] of Object.entries(fields)) {
        if (name === 'TritonAccess' && key === 'namespace') continue;
        const setting = (CONFIG_FIELDS as Record<string, typeof field>)[key];
        // Only the description and the default may suit other programs better.
        const rules = (of: object): unknown => ({ ...of, description: '', default: '', optional: '' });
        if (setting !== undefined) expect([key, rules({ ...field })]).toEqual([key, rules({ ...setting })]);
      }
    }
  });
});

afterEach(() => jest.restoreAllMocks());

describe('programs of users', () => {
  const read = (...path: string[]): string => readFileSync(join(paths.root, ...path), 'utf8');

  test('the examples have the version of this package, and the version of Pulumi that it has', () => {
    type Package = { version: string; dependencies: Record<string, string> };
    const parsed = (...path: string[]): Package => JSON.parse(read(...path, 'package.json')) as Package;
    const { version, dependencies } = parsed();
    const pulumi = dependencies['@pulumi/pulumi'];
    expect(parsed('examples', 'typescript').dependencies).toEqual({ '@pulumi/pulumi': pulumi });
    expect(parsed('examples', 'new-project').dependencies).toEqual({
      '@pulumi/pulumi': pulumi,
      'triton-serving': version,
    });
    expect(read('examples', 'python', 'requirements.txt')).toBe(`pulumi==${String(pulumi)}\n`);
  });

  test('the program in docs/infrastructure.md has arguments and outputs of the schema', () => {
    const [, program = ''] = /```python\n(.*?)```/s.exec(read('docs', 'infrastructure.md')) ?? [];
    const camel = (name: string): string => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const names = (pattern: RegExp): string[] => [...program.matchAll(pattern)].map(([, name = '']) => camel(name));
    const known = (of: 'inputProperties' | 'properties'): string[] =>
      ['ModelRepository', 'TritonAccess', 'TritonServer'].flatMap((name) =>
        Object.keys(resources[token(name)]?.[of] ?? {}),
      );
    expect(names(/(\w+)=/g).length).toBeGreaterThan(8);
    expect(known('inputProperties')).toEqual(expect.arrayContaining(names(/(\w+)=/g)));
    expect(known('properties')).toEqual(expect.arrayContaining(names(/(?:models|access)\.(\w+)/g)));
  });
});

describe('TritonServer', () => {
  /** Type, name and properties of all children that a provider creates. */
  const objects = ({ resources: all }: RegisteredStack): unknown[] =>
    all.filter(({ custom }) => custom).map(({ type, name, inputs }) => ({ type, name, inputs }));

  test('creates the objects of the component in TypeScript', async () => {
    const options = { replicas: 3, gpusPerPod: 2, pod: { nodeSelector: { gpu: 'L4' } } };
    const ours = await registered(() => {
      const { roleArn, ...where } = SERVER;
      return new TritonServer('faces', { ...where, ...options, credentials: { roleArn } });
    }, 'other');
    const theirs = await make('TritonServer', { ...SERVER, ...options });
    expect(objects(ours).length).toBeGreaterThan(10);
    expect(objects(theirs)).toEqual(objects(ours));
    expect(theirs.resources[0]).toMatchObject({ type: token('TritonServer'), name: 'faces', custom: false });
  });

  test('has the outputs of its schema', async () => {
    const { outputs } = await make('TritonServer', SERVER);
    const state = outputs['state'] as Record<string, unknown>;
    const always = Object.keys(resources[token('TritonServer')]?.properties ?? {}).filter(
      (key) => key !== 'externalUrl',
    );
    expect(Object.keys(state)).toEqual(expect.arrayContaining(always));
    expect(state).toMatchObject({
      namespace: 'faces',
      serviceUrl: 'http://faces.faces.svc:8000',
      nodes: { 'Deployment/faces': 'faces-id', 'Service/faces': 'faces-id' },
    });
  });

  test('keeps secret arguments secret, and waits for resources whose outputs it gets', async () => {
    const made = await registered(() => {
      const bucket = new Bucket('bucket');
      const region = bucket.arn.apply(() => 'eu-west-1');
      const environment = pulumi.secret({ TOKEN: 'of-a-test' });
      const inputs = { ...SERVER, region, environment };
      return { state: pulumi.output(construct('faces', token('TritonServer'), inputs, {}).then(({ state }) => state)) };
    }, 'other');
    expect(JSON.stringify(made.only('kubernetes:apps/v1:Deployment').inputs)).not.toContain('of-a-test');
    expect(made.only(token('TritonServer')).dependencies).toEqual([made.only('aws:s3/bucket:Bucket').urn]);
  });

  test('refuses all wrong arguments together, by the name of each', async () => {
    const { modelRepository } = SERVER;
    expect(await wrong('TritonServer', { modelRepository, replicas: 'two', autoscalin: {} })).toEqual([
      expect.stringMatching(/^autoscalin: unknown setting; .*did you mean autoscaling\?$/),
      expect.stringMatching(/^region: is missing; allowed: text/),
      'replicas: is "two"; allowed: a whole number from 0 to 1000',
    ]);
    const autoscaling = { minReplicas: 4, maxReplicas: 2 };
    expect(await wrong('TritonServer', { ...SERVER, autoscaling, exposure: { kind: 'ingress' } })).toEqual([
      'autoscaling.minReplicas: is 4; allowed: at most maxReplicas, 2',
      expect.stringMatching(/^exposure.controllerCidrs: is empty/),
      expect.stringMatching(/^exposure.host: is missing/),
      expect.stringMatching(/^exposure: has no certificate/),
    ]);
  });

  test('shows no value of a secret argument that is wrong', async () => {
    const secret = { replicas: pulumi.secret('of-a-test'), s3SecretAccessKey: 7, environment: pulumi.secret({ A: 7 }) };
    expect(await wrong('TritonServer', { ...SERVER, ...secret })).toEqual([
      'environment (secret): is wrong; allowed: a mapping of text to text',
      expect.stringMatching(/^replicas \(secret\): is wrong; allowed: a value that is not secret/),
      'replicas (secret): is wrong; allowed: a whole number from 0 to 1000',
      's3SecretAccessKey (secret): is wrong; allowed: text',
    ]);
  });

  test('transform changes the children of a kind, and refuses a kind without children', async () => {
    const transform = {
      Deployment: { metadata: { annotations: { team: 'vision' } }, spec: { minReadySeconds: null } },
    };
    const changed = await make('TritonServer', { ...SERVER, transform });
    const { metadata, spec } = changed.only('kubernetes:apps/v1:Deployment').inputs as Record<string, object>;
    expect(metadata).toMatchObject({ name: 'faces', namespace: 'faces', annotations: { team: 'vision' } });
    expect(spec).toHaveProperty('template');
    const { outputs } = await registered(() => {
      const unused = { Deploymnt: {}, Ingress: {} };
      const [shown, hidden] = [unused, pulumi.secret(unused)].map((transform) =>
        wrong('TritonServer', { ...SERVER, transform }),
      );
      return { shown: pulumi.output(shown), hidden: pulumi.output(hidden) };
    }, 'other');
    expect(outputs['shown']).toEqual([
      expect.stringMatching(
        /^transform.Deploymnt: is set, but faces has no child resource of this kind; allowed: ConfigMap, Deployment, Namespace/,
      ),
      expect.stringMatching(/^transform.Ingress: is set/),
    ]);
    expect(outputs['hidden']).toContainEqual(expect.stringMatching(/^transform.Deploymnt \(secret\): is wrong/));
  });

  test('refuses a transform that is no mapping of mappings', async () => {
    for (const [transform, path] of [
      ['text', 'transform'],
      [{ Deployment: null }, 'transform.Deployment'],
      [{ Deployment: ['text'] }, 'transform.Deployment'],
    ] as const) {
      expect(await wrong('TritonServer', { ...SERVER, transform })).toEqual([
        expect.stringContaining(`${path}: is not a mapping; allowed: KIND: { ARGUMENT: VALUE }`),
      ]);
    }
  });

  test('transform keeps secrets, and waits for resources whose outputs it contains', async () => {
    const made = await registered(() => {
      const { arn } = new Bucket('bucket');
      const annotations = { bucket: arn, token: pulumi.secret('of-a-test') };
      const transform = {
        Deployment: { metadata: { annotations } },
        Service: pulumi.secret({ spec: { type: 'of-a-test' } }),
      };
      const inputs = { ...SERVER, transform };
      return { state: pulumi.output(construct('faces', token('TritonServer'), inputs, {}).then(({ state }) => state)) };
    }, 'other');
    // The mocks mark the whole property.
    expect(made.only('kubernetes:apps/v1:Deployment').marked['metadata']).toMatchObject({
      secret: { annotations: { token: 'of-a-test' } },
    });
    expect(made.only('kubernetes:core/v1:Service', 'faces').marked['spec']).toMatchObject({
      secret: { type: 'of-a-test' },
    });
    expect(made.only(token('TritonServer')).dependencies).toEqual([made.only('aws:s3/bucket:Bucket').urn]);
  });

  test('a secret is refused where its value would be stored as clear text', async () => {
    const secret = { extraArguments: [pulumi.secret('--of=a-test')], nodeSelector: pulumi.secret({}) };
    expect(await wrong('TritonServer', { ...SERVER, ...secret })).toEqual([
      expect.stringMatching(
        /^extraArguments \(secret\): is wrong; allowed: a value that is not secret, .* secrets can be in modelRepository, .*environment, .*transform$/,
      ),
      expect.stringMatching(/^nodeSelector \(secret\): is wrong/),
    ]);
    const made = await make('TritonServer', { ...SERVER, roleArn: pulumi.secret(SERVER.roleArn) });
    expect(made.only('kubernetes:apps/v1:Deployment', 'faces').marked['spec']).toHaveProperty('secret');
  });

  test('a preview has all objects, also if it does not know keys and texts in environment and transform yet', async () => {
    const known = await make('TritonServer', SERVER);
    const previewed = await preview('TritonServer', (host) => ({
      ...SERVER,
      environment: { DB_HOST: host, LEVEL: 'debug' },
      transform: { Deployment: { metadata: { annotations: { host, team: 'vision' } } } },
    }));
    const names = (made: RegisteredStack): string[] =>
      made.resources.map(({ type, name }) => `${type} ${name}`).filter((one) => !one.includes('created-later'));
    expect(names(previewed)).toEqual(names(known));
    const { inputs } = previewed.only('kubernetes:apps/v1:Deployment');
    expect(inputs['metadata']).toMatchObject({ name: 'faces', annotations: { team: 'vision' } });
    expect(JSON.stringify(inputs['spec'])).toContain('{"name":"LEVEL","value":"debug"}');
    expect(JSON.stringify(inputs['spec'])).toContain('"name":"DB_HOST"');
  });

  test.each([
    ['namespace', (text: pulumi.Output<string>) => ({ namespace: text })],
    ['environment', (text: pulumi.Output<string>) => ({ environment: text.apply((DB_HOST) => ({ DB_HOST })) })],
    ['transform', (text: pulumi.Output<string>) => ({ transform: { Deployment: text.apply(() => ({})) } })],
  ])('a preview that does not know %s warns that it leaves out the objects', async (name, inputs) => {
    const warn = jest.spyOn(pulumi.log, 'warn').mockResolvedValue();
    const made = await preview('TritonServer', (text) => ({ ...SERVER, ...inputs(text) }));
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(new RegExp(`because ${name} is not known yet.*"pulumi up" keeps them`)),
        expect.anything(),
      ],
    ]);
    expect(made.resources.map(({ type }) => type)).not.toContain('kubernetes:apps/v1:Deployment');
  });

  test('an empty text counts as missing', async () => {
    expect(await wrong('TritonServer', { ...SERVER, roleArn: '' })).toEqual([
      expect.stringMatching(/^roleArn: is missing/),
    ]);
    const made = await make('TritonServer', { ...SERVER, s3AccessKeyId: '', s3SecretAccessKey: pulumi.secret('') });
    expect(JSON.stringify(made.only('kubernetes:apps/v1:Deployment', 'faces').inputs)).toContain(SERVER.roleArn);
  });
});

test.each([
  [{ a: 1, b: { c: 2, d: 3 } }, { b: { c: null, e: 4 } }, { a: 1, b: { d: 3, e: 4 } }],
  [{ a: [1, 2] }, { a: [3] }, { a: [3] }],
  [{ a: 1 }, { a: { b: null, c: 1 } }, { a: { c: 1 } }],
])('a merge patch of %j by %j makes %j', (target, patch, merged) => {
  expect(merge(target, patch)).toEqual(merged);
});

test('the option protect reaches what holds data, unless the argument protect is false', async () => {
  const types = ['kubernetes:core/v1:Namespace', 'aws:s3/bucket:Bucket', 'aws:kms/key:Key'];
  const protection = async (kind: string, inputs: pulumi.Inputs, options: pulumi.ComponentResourceOptions) => {
    const { resources: all } = await make(kind, inputs, options);
    return all.filter(({ type }) => types.includes(type)).map(({ type, protect }) => [type.split(':').at(-1), protect]);
  };
  const isProtected = { protect: true };
  for (const [argument, options, expected] of [
    [{}, isProtected, true],
    [isProtected, {}, true],
    [{ protect: false }, isProtected, false],
    [{}, {}, false],
  ] as const) {
    expect(await protection('TritonServer', { ...SERVER, ...argument }, options)).toEqual([['Namespace', expected]]);
    const ofRepository = await protection('ModelRepository', { modelRepositoryPrefix: 'faces', ...argument }, options);
    // One bucket has the models, the other the logs of their accesses.
    expect(ofRepository.sort()).toEqual([
      ['Bucket', expected],
      ['Bucket', expected],
      ['Key', expected],
    ]);
  }
});

test('a preview has the repository whose readers it does not know yet', async () => {
  const made = await preview('ModelRepository', (text) => ({ modelRepositoryPrefix: 'faces', bucketReaders: [text] }));
  expect(made.all('aws:s3/bucketPolicy:BucketPolicy')).toHaveLength(2);
  const reader = 'arn:aws:iam::111122223333:role/deploy';
  const known = await make('ModelRepository', { modelRepositoryPrefix: 'faces', bucketReaders: [reader] });
  expect(known.only('aws:s3/bucketPolicy:BucketPolicy', 'faces').inputs['policy']).toContain(reader);
});

test('a repository, the role for it and a pool of nodes need no account, region and placement', async () => {
  const made = await make('ModelRepository', { modelRepositoryPrefix: 'faces', oldVersionDays: 30 });
  expect(made.outputs['state']).toMatchObject({
    url: expect.stringMatching(/^s3:\/\/.+\/faces$/) as string,
    region: 'us-east-1',
  });
  expect(made.only('aws:s3/bucketPolicy:BucketPolicy', 'faces').inputs['policy']).toContain(ACCOUNT);

  const bucketArn = 'arn:aws:s3:::models-bucket';
  const access = await make('TritonAccess', {
    bucketArn,
    oidcProviderArn: EXAMPLES['oidcProviderArn'],
    server: 'faces',
  });
  const { assumeRolePolicy } = access.only('aws:iam/role:Role').inputs;
  expect(assumeRolePolicy).toContain('system:serviceaccount:faces:faces"');

  const pool = { instanceTypes: ['g6.xlarge'], nodeClass: EXAMPLES['nodeClass'] };
  const nodes = await make('GpuNodePool', { ...pool, maximumGpus: 4 });
  expect(nodes.only('kubernetes:karpenter.sh/v1:NodePool').inputs).toMatchObject({
    spec: { limits: { 'nvidia.com/gpu': '4' } },
  });
  expect(await wrong('GpuNodePool', { ...pool, instanceTypes: ['g5g.xlarge'] })).toEqual([
    expect.stringMatching(/^instanceTypes/),
  ]);
});
