import { saysVersion, whyNoGo } from '../../../tools/toolchain/go';

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

test('a missing Go is reported as the reason', () => {
  const path = process.env['PATH'];
  process.env['PATH'] = '/nowhere';
  try {
    expect(whyNoGo(['versitygw'])).toBe('there is no Go on PATH');
  } finally {
    process.env['PATH'] = path;
  }
});
