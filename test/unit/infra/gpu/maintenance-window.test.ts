import { disruptionBudgets, type MaintenanceWindow } from '../../../../infra/gpu/maintenance-window';

test('without a window, nodes may be replaced at any time', () => {
  expect(disruptionBudgets('20%', undefined)).toEqual([{ nodes: '20%' }]);
});

test.each<[MaintenanceWindow, [schedule: string, duration: string][]]>([
  [{ days: [], startHour: 2, hours: 4 }, [['0 6 * * *', '20h']]],
  [{ days: [], startHour: 22, hours: 4 }, [['0 2 * * *', '20h']]],
  [{ days: ['Sun'], startHour: 2, hours: 4 }, [['0 6 * * 0', '164h']]],
  [{ days: ['Sat'], startHour: 22, hours: 4 }, [['0 2 * * 0', '164h']]],
  [
    { days: ['Wed', 'Mon'], startHour: 0, hours: 23 },
    [
      ['0 23 * * 1', '25h'],
      ['0 23 * * 3', '97h'],
    ],
  ],
])('outside of %j, no node is replaced', (window, pauses) => {
  expect(disruptionBudgets('1', window)).toEqual([
    { nodes: '1' },
    ...pauses.map(([schedule, duration]) => ({
      nodes: '0',
      schedule,
      duration,
      reasons: ['Drifted', 'Underutilized'],
    })),
  ]);
});

test('at each hour of a week, either the window or one pause is open', () => {
  const window: MaintenanceWindow = { days: ['Tue', 'Fri', 'Sat'], startHour: 23, hours: 3 };
  const [, ...pauses] = disruptionBudgets('1', window);
  const paused = new Array<number>(7 * 24).fill(0);
  for (const { schedule = '', duration = '' } of pauses) {
    const [, hour, , , day] = schedule.split(' ').map(Number) as [number, number, number, number, number];
    for (let i = 0; i < parseInt(duration, 10); i++) {
      const at = (day * 24 + hour + i) % paused.length;
      paused[at] = (paused[at] ?? 0) + 1;
    }
  }
  expect(Math.max(...paused)).toBe(1);
  const open = paused.flatMap((count, hour) => (count === 0 ? [hour] : []));
  expect(open).toEqual([0, 1, 71, 72, 73, 143, 144, 145, 167]);
});
