import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSettings, type ConfigSource } from '../../../infra/settings';
import { allowedAccounts, stackFile } from '../../../infra/settings/stack-file';
import { formatUserError, UserError } from '../../../src/core/errors';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());
afterEach(() => jest.restoreAllMocks());

/** A stack file with this text; what Pulumi would read from it. */
const read = (text: string) => {
  writeFileSync(join(scratch.directory, 'Pulumi.test.yaml'), text);
  return stackFile('test', scratch.directory);
};

/** The message for the user. */
function said(text: string, use: (source: ConfigSource) => unknown = () => undefined): string {
  try {
    use(read(text));
    return '';
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return formatUserError(error).replaceAll(`${scratch.directory}/`, '');
  }
}

test.each([
  ['config:\n\ttriton-serving:replicas: 1\n', 'line 2, column 1: tab characters must not be used in indentation'],
  ['config:\n  triton-serving:replicas: 1\n  triton-serving:replicas: 2\n', 'line 3, column 3: duplicated mapping key'],
  ['config:\n  triton-serving:availabilityZones: [us-east-1a\n  triton-serving:replicas: 1\n', 'line 3, column 3: '],
])('stackFile reports that %j is not valid YAML, with line and column', (text, expected) => {
  expect(said(text)).toContain(`Pulumi.test.yaml cannot be read\n  Pulumi.test.yaml: not valid YAML: ${expected}`);
});

test('stackFile rejects a config that is not a mapping', () => {
  expect(said('config: [a]\n')).toBe('Pulumi.test.yaml cannot be read\n  Pulumi.test.yaml: config is not a mapping');
});

test.each(['', '# nothing yet\n', 'config:\n', 'encryptionsalt: v1:abc\n'])(
  'stackFile accepts a file without settings: %j',
  (text) => {
    expect(read(text).values).toEqual({});
  },
);

test('stackFile returns values as text, as Pulumi does', () => {
  const { values } = read(
    'config:\n  triton-serving:kubernetesVersion: 1.35\n  triton-serving:replicas: 3\n  triton-serving:protect: true\n' +
      '  triton-serving:clusterName:\n  triton-serving:availabilityZones: [us-east-1a]\n  other:replicas: 4\n',
  );
  expect(values).toEqual({
    kubernetesVersion: '1.35',
    replicas: '3',
    protect: 'true',
    clusterName: null,
    availabilityZones: ['us-east-1a'],
  });
});

describe('settings of a stack file', () => {
  const settings = (more: string) =>
    readSettings(
      read(`config:\n  aws:region: us-east-1\n  triton-serving:availabilityZones: [us-east-1a, us-east-1b]\n${more}`),
    );

  test('accept a version without quotes, as a preview does', () => {
    expect(settings('  triton-serving:kubernetesVersion: 1.34\n').kubernetesVersion).toBe('1.34');
  });

  test('read a key without a value as missing', () => {
    const { clusterName, triton } = settings('  triton-serving:clusterName:\n  triton-serving:replicas:\n');
    expect(clusterName).toBe('triton-test');
    expect(triton.replicas).toBe(2);
  });
});

// https://github.com/pulumi/pulumi reads "replicas" as "PROJECT:replicas".
test('stackFile reads a key without a prefix as a key of the project, as Pulumi does', () => {
  expect(read('config:\n  replicas: 3\n').values).toEqual({ replicas: '3' });
  expect(said('config:\n  replicas: 3\n  triton-serving:replicas: 4\n')).toBe(
    'Pulumi.test.yaml cannot be read\n  Pulumi.test.yaml: replicas and triton-serving:replicas are both set\n' +
      '    -> keep only triton-serving:replicas',
  );
});

test('stackFile does not use AWS_REGION in place of aws:region', () => {
  jest.replaceProperty(process, 'env', { ...process.env, AWS_REGION: 'us-west-2' });
  expect(read('config:\n').region).toBeUndefined();
});

test('stackFile knows only the path of an encrypted value in a mapping', () => {
  const { values, encrypted } = read(
    'config:\n  triton-serving:environment:\n    HF_TOKEN:\n      secure: AAAB\n    HF_HOME: /tmp\n',
  );
  expect(values['environment']).toEqual({ HF_TOKEN: 'encrypted-and-not-known-here', HF_HOME: '/tmp' });
  expect([...encrypted]).toEqual(['environment.HF_TOKEN']);
});

test('readSettings of a file reports each member that is not encrypted, and each that would not stay encrypted', () => {
  const file =
    'config:\n  triton-serving:existingCluster:\n    context:\n      secure: AAAB\n' +
    '  triton-serving:modelRepository: s3://local/models\n' +
    '  triton-serving:s3:\n    endpoint: http://s3:9000\n    accessKeyId:\n      secure: AAAB\n    secretAccessKey: shown\n';
  expect(
    said(file, readSettings)
      .split(/\n {2}(?=Pulumi)/)
      .slice(1),
  ).toEqual([
    expect.stringMatching(
      /s3\.secretAccessKey: is not encrypted\n {4}-> pulumi config set --secret --path s3\.secretAccessKey$/,
    ),
    expect.stringMatching(/existingCluster\.context: is encrypted, but the state/),
  ]);
});

test('stackFile reads the keys of the project that Pulumi.yaml names', () => {
  const project = join(scratch.directory, 'Pulumi.yaml');
  writeFileSync(project, 'name: vision\nruntime: nodejs\n');
  try {
    expect(read('config:\n  vision:replicas: 1\n  triton-serving:replicas: 2\n').values).toEqual({ replicas: '1' });
  } finally {
    rmSync(project);
  }
});

describe('keys of the AWS provider', () => {
  // As "pulumi config set aws:assumeRoles '[...]'" writes it.
  test('are read from JSON, as the provider does', () => {
    const { identity, tags } = read(
      `config:\n  aws:assumeRoles: '[{"roleArn": "arn:aws:iam::123456789012:role/a"}]'\n` +
        `  aws:defaultTags: '{"tags": {"stack": "test"}}'\n  aws:allowedAccountIds: '["123456789012"]'\n`,
    );
    expect(identity.assumeRoles).toEqual([{ roleArn: 'arn:aws:iam::123456789012:role/a' }]);
    expect(tags).toEqual({ stack: 'test' });
    expect(allowedAccounts('test', scratch.directory)).toEqual(['123456789012']);
  });

  test('are reported if they are not valid JSON', () => {
    expect(said("config:\n  aws:assumeRoles: '[{roleArn}]'\n")).toMatch(
      /Pulumi\.test\.yaml: aws:assumeRoles is not valid JSON: /,
    );
    read("config:\n  aws:allowedAccountIds: '[1'\n");
    expect(() => allowedAccounts('test', scratch.directory)).toThrow(UserError);
  });
});
