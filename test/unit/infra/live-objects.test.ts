import { refuseToDropNamespace, refuseToRenderLiveObjects } from '../../../infra/cluster/live-objects';
import type { Settings } from '../../../infra/settings';

const object = { type: 'kubernetes:apps/v1:Deployment', outputs: {} };
const live = { type: 'pulumi:providers:kubernetes', outputs: { kubeconfig: '{}' } };
const rendering = { type: 'pulumi:providers:kubernetes', outputs: { renderYamlToDirectory: 'out' } };
const bucket = { type: 'aws:s3/bucket:Bucket', outputs: {} };

test.each([
  ['a new stack', {}],
  ['a stack without objects in its cluster', { live, bucket }],
  ['a stack that always rendered', { rendering, object, bucket }],
])('refuseToRenderLiveObjects accepts %s', (_, state) => {
  expect(() => refuseToRenderLiveObjects(state)).not.toThrow();
});

test('refuseToRenderLiveObjects refuses a stack with objects in a cluster, and names their number and the next step', () => {
  expect(() => refuseToRenderLiveObjects({ live, object, bucket })).toThrow(
    expect.objectContaining({
      message: expect.stringContaining('applied 1 objects to a cluster') as string,
      hint: expect.stringContaining('docs/operations.md') as string,
    }) as Error,
  );
});

describe('refuseToDropNamespace', () => {
  const namespace = (labels?: object) => ({
    type: 'kubernetes:core/v1:Namespace',
    outputs: { metadata: { name: 'old', ...(labels && { labels }) } },
  });
  const own = { namespace: namespace({ 'app.kubernetes.io/instance': 'triton' }) };
  const settings = (name: string, create = false, protect = true) =>
    ({ protect, triton: { namespace: { name, create, protect } } }) as unknown as Settings;

  test.each([
    ['a new stack', {}, settings('new')],
    ['a release of the namespace', own, settings('old')],
    ['a namespace that the stack replaces, which Pulumi refuses', own, settings('new', true)],
    ['a stack without protection', own, settings('new', false, false)],
    ['a namespace that the stack did not create', { namespace: namespace() }, settings('new')],
  ])('accepts %s', (_, state, next) => {
    expect(() => refuseToDropNamespace(state, next)).not.toThrow();
  });

  test('refuses another namespace with createNamespace: false in a protected stack', () => {
    expect(() => refuseToDropNamespace(own, settings('new'))).toThrow(
      /this stack created the namespace old: .* delete/,
    );
  });
});
