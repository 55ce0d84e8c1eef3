import { servingPods, type ApiPod } from '../../../src/cluster/pods';

interface Given {
  name?: string;
  phase?: string;
  ready?: 'True' | 'False' | 'Unknown';
  ending?: boolean;
  ports?: { name?: string; containerPort: number }[];
}

const pod = ({ name = 'triton-0', phase = 'Running', ready = 'True', ending = false, ports }: Given = {}): ApiPod => ({
  metadata: { name, uid: `uid of ${name}`, ...(ending ? { deletionTimestamp: new Date() } : {}) },
  spec: { containers: [ports === undefined ? {} : { ports }] },
  status: {
    phase,
    conditions: [
      { type: 'ContainersReady', status: 'True' },
      { type: 'Ready', status: ready },
    ],
  },
});

test('servingPods returns name, uid, port and readiness of a running pod', () => {
  expect(servingPods([pod()])).toEqual([{ name: 'triton-0', uid: 'uid of triton-0', port: 8000, ready: true }]);
});

test('servingPods sorts by name', () => {
  const names = servingPods([pod({ name: 'c' }), pod({ name: 'a' }), pod({ name: 'b' })]).map(({ name }) => name);
  expect(names).toEqual(['a', 'b', 'c']);
});

test.each([
  ['is terminating', pod({ ending: true })],
  ['has failed', pod({ phase: 'Failed' })],
  ['has succeeded', pod({ phase: 'Succeeded' })],
])('servingPods omits a pod that %s', (_, one) => {
  expect(servingPods([one])).toEqual([]);
});

test.each([
  ['the Ready condition is False', pod({ ready: 'False' })],
  ['the state of its node is unknown', pod({ ready: 'Unknown' })],
  ['it has no node yet', pod({ phase: 'Pending', ready: 'False' })],
  ['it has no status yet', { metadata: { name: 'new', uid: '1' }, spec: { containers: [] } }],
])('servingPods reports a replica as not ready if %s', (_, one) => {
  expect(servingPods([one]).map(({ ready }) => ready)).toEqual([false]);
});

describe('the port of servingPods', () => {
  const ports = [
    { containerPort: 8002, name: 'metrics' },
    { containerPort: 9000, name: 'http' },
  ];
  test('is the container port named http', () => {
    expect(servingPods([pod({ ports })])[0]?.port).toBe(9000);
  });
  test('is the given port, if one is given', () => {
    expect(servingPods([pod({ ports })], 7000)[0]?.port).toBe(7000);
  });
  test('is 8000 if the pod has no port named http', () => {
    expect(servingPods([pod({ ports: ports.slice(0, 1) })])[0]?.port).toBe(8000);
  });
});
