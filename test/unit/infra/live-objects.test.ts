import { refuseToRenderLiveObjects } from '../../../infra/cluster/live-objects';

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
