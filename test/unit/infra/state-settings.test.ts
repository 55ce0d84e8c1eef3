import { judgeKey } from '../../../infra/doctor/check-state';
import { parseBackend, parseSecretsProvider, type StateSettings } from '../../../infra/settings/state';

const BUCKET = { kind: 'bucket', bucket: 'acme-state', folder: '', region: undefined } as const;
const ARN = 'arn:aws:kms:eu-west-1:123456789012:key/34ab';

test.each<[url: string | undefined, backend: StateSettings['backend']]>([
  [undefined, { kind: 'unknown' }],
  ['', { kind: 'unknown' }],
  ['s3://acme-state', BUCKET],
  ['s3://acme-state?region=us-east-1&awssdk=v2', { ...BUCKET, region: 'us-east-1' }],
  ['s3://acme-state/team/a/', { ...BUCKET, folder: 'team/a/' }],
  ['s3://acme-state?endpoint=minio:9000', { kind: 'elsewhere', url: 's3://acme-state' }],
  ['https://api.pulumi.com', { kind: 'elsewhere', url: 'https://api.pulumi.com' }],
  ['https://user:password@pulumi.acme.example', { kind: 'elsewhere', url: 'https://pulumi.acme.example' }],
  ['file://~', { kind: 'elsewhere', url: 'file://~' }],
])('parseBackend of %s', (url, backend) => {
  expect(parseBackend(url)).toEqual(backend);
});

test.each<[provider: string | undefined, hasSalt: boolean, secrets: StateSettings['secrets']]>([
  [undefined, false, { kind: 'none' }],
  [undefined, true, { kind: 'passphrase' }],
  ['passphrase', false, { kind: 'passphrase' }],
  ['awskms://alias/state?region=us-east-1', false, { kind: 'key', id: 'alias/state', region: 'us-east-1' }],
  ['awskms:///alias/state', false, { kind: 'key', id: 'alias/state', region: undefined }],
  ['awskms://1234abcd-12ab?region=us-east-1', true, { kind: 'key', id: '1234abcd-12ab', region: 'us-east-1' }],
  [`awskms:///${ARN}`, false, { kind: 'key', id: ARN, region: 'eu-west-1' }],
  [`awskms:///${ARN}?region=us-east-1`, false, { kind: 'key', id: ARN, region: 'us-east-1' }],
  ['gcpkms://projects/a', false, { kind: 'elsewhere', provider: 'gcpkms://projects/a' }],
])('parseSecretsProvider of %s, with a salt: %s', (provider, hasSalt, secrets) => {
  expect(parseSecretsProvider(provider, hasSalt)).toEqual(secrets);
});

test.each([
  ['Enabled', 'ok', undefined],
  ['Disabled', 'error', /^aws kms enable-key/],
  ['PendingDeletion', 'error', /^aws kms cancel-key-deletion .* enable-key/],
  ['PendingImport', 'error', /^aws kms describe-key/],
  [undefined, 'error', /secretsprovider/],
] as const)('judgeKey of a key that is %s', (state, level, fix) => {
  const found = judgeKey('alias/state', 'us-east-1', state);
  expect(found.level).toBe(level);
  if (fix !== undefined) expect(found.fix).toMatch(fix);
});
