import { CommandError } from '../../../src/core/exec';
import { explainBuild, saysVersion, whyNoGo } from '../../../tools/toolchain/go';

test.each([
  ['versitygw: Version  : v1.8.0\nBuild    : x', 'v1.8.0', true],
  ['Kubernetes v1.34.1', 'v1.34.1', true],
  ['etcd Version: 3.6.4\nGit SHA: abc', 'v3.6.4', true],
  ['kwok version v0.8.0 go1.26.8 (linux/amd64)', 'v0.8.0', true],
  ['Kubernetes v1.34.10', 'v1.34.1', false],
  ['Kubernetes v1.34.1-rc.0', 'v1.34.1', false],
  ['etcd Version: 13.6.4', 'v3.6.4', false],
  ['Version  : git', 'v1.8.0', false],
])('%j is version %s: %s', (text, version, expected) => {
  expect(saysVersion(text, version)).toBe(expected);
});

test.each([
  ['no space left on device', /disk is full: pulumi/, /GOCACHE/],
  ['verifying a@v1: checksum mismatch\nSECURITY ERROR', /not the one that go\.sum pins/, /GOPROXY/],
  [
    'go: a@v1: Get "https://proxy/a": dial tcp: lookup proxy: no such host',
    /proxy could not be reached/,
    /HTTPS_PROXY/,
  ],
  ['go: a@v1: reading https://proxy/a.zip: 403 Forbidden', /proxy could not be reached/, /HTTPS_PROXY/],
])('a build that fails with %j', (stderr, message, hint) => {
  const explained = explainBuild({ name: 'pulumi' }, new CommandError('go', 1, { stdout: '', stderr }, stderr));
  expect(explained).toMatchObject({
    name: 'UserError',
    message: expect.stringMatching(message) as string,
    hint: expect.stringMatching(hint) as string,
  });
});

test('another failure of a build is reported unchanged', () => {
  const error = new CommandError('go', 1, { stdout: '', stderr: 'main.go:1: syntax error' }, 'main.go:1: syntax error');
  expect(explainBuild({ name: 'pulumi' }, error)).toBe(error);
});

test('a missing Go is reported as the reason', () => {
  const path = process.env['PATH'];
  process.env['PATH'] = '/nowhere';
  try {
    expect(whyNoGo(['versitygw'])).toBe('there is no Go on PATH');
  } finally {
    process.env['PATH'] = path;
  }
});
