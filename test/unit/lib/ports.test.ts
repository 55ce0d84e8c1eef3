import { claimPorts, freePorts } from '../../../scripts/lib/ports';

test('a port is given once in a process, also before its server has opened it', async () => {
  const ports: number[] = [];
  for (let i = 0; i < 100; i += 1) ports.push(...(await freePorts(20)));
  ports.push(...Object.values(await claimPorts({ one: 0, other: 0 })));
  expect(new Set(ports).size).toBe(2002);
});
