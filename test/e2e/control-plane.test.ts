import { ControlPlane } from '../support/control-plane';
import { Scratch } from '../support/scratch';
import { until } from '../support/until';

jest.setTimeout(180_000);
const scratch = new Scratch();
afterAll(() => scratch.clean());

test('comes up', async () => {
  const t = Date.now();
  const plane = await ControlPlane.start(scratch);
  console.log('up', Date.now() - t);
  await plane.addNode({ name: 'gpu-0', gpus: 1 });
  await plane.client.apps.createNamespacedDeployment({ namespace: 'default', body: {
    metadata: { name: 't' }, spec: { replicas: 2, selector: { matchLabels: { a: 'b' } }, template: { metadata: { labels: { a: 'b' } },
      spec: { containers: [{ name: 'c', image: 'x', resources: { limits: { 'nvidia.com/gpu': '1' } } }] } } } } });
  await until('one', async () => (await plane.readyPods('default')).length === 1);
  console.log('one', Date.now() - t);
  expect((await plane.pods('default')).length).toBe(2);
});
