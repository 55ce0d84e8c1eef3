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

test('a running pod with its name, uid, port and readiness', () => {
  const { status, ...rest } = pod();
  const running = { ...rest, status: { ...status, containerStatuses: [{ state: {} }, { state: { running: {} } }] } };
  const found = { name: 'triton-0', uid: 'uid of triton-0', port: 8000, ready: true };
  expect(servingPods([running])).toEqual([{ ...found, started: true }]);
  expect(servingPods([pod()])).toEqual([{ ...found, started: false }]);
});

test('by name, whatever the order of the answer', () => {
  const names = servingPods([pod({ name: 'c' }), pod({ name: 'a' }), pod({ name: 'b' })]).map(({ name }) => name);
  expect(names).toEqual(['a', 'b', 'c']);
});

test.each([
  ['is ending', pod({ ending: true })],
  ['has failed', pod({ phase: 'Failed' })],
  ['has succeeded', pod({ phase: 'Succeeded' })],
])('a pod that %s is no replica', (_, one) => {
  expect(servingPods([one])).toEqual([]);
});

test.each([
  ['the Ready condition is False', pod({ ready: 'False' })],
  ['the node no longer says', pod({ ready: 'Unknown' })],
  ['it has no node yet', pod({ phase: 'Pending', ready: 'False' })],
  ['it has no status yet', { metadata: { name: 'new', uid: '1' }, spec: { containers: [] } }],
])('a replica that is not ready: %s', (_, one) => {
  expect(servingPods([one]).map(({ ready }) => ready)).toEqual([false]);
});

describe('the port', () => {
  const ports = [
    { containerPort: 8002, name: 'metrics' },
    { containerPort: 9000, name: 'http' },
  ];
  test('is the one that the pod names http', () => {
    expect(servingPods([pod({ ports })])[0]?.port).toBe(9000);
  });
  test('is the one asked for before that', () => {
    expect(servingPods([pod({ ports })], 7000)[0]?.port).toBe(7000);
  });
  test('is 8000 where the pod names others only', () => {
    expect(servingPods([pod({ ports: ports.slice(0, 1) })])[0]?.port).toBe(8000);
  });
});
