import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { claimPorts, freePorts } from '../../../src/local/process/ports';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('freePorts returns each port once, also before a server has opened it', async () => {
  const ports: number[] = [];
  for (let i = 0; i < 20; i += 1) ports.push(...(await freePorts(20)));
  ports.push(...Object.values(await claimPorts({ one: 0, other: 0 })));
  expect(new Set(ports).size).toBe(402);
});

test('freePorts skips the ports of another process while that process runs', async () => {
  const program = join(scratch.directory, 'ports.cjs');
  buildSync({
    stdin: {
      contents: `import { freePorts } from './ports';
        process.on('message', (first) => {
          // The same draws as the other one.
          let next = first as number;
          require('node:crypto').randomInt = () => next++;
          void freePorts(5).then((ports) => process.send!(ports));
        });`,
      resolveDir: join(paths.source, 'local', 'process'),
      loader: 'ts',
    },
    bundle: true,
    platform: 'node',
    outfile: program,
  });
  const start = async (first: number): Promise<{ ports: number[]; child: ChildProcess }> => {
    const child = fork(program);
    scratch.defer(() => void child.kill());
    child.send(first);
    const [ports] = (await once(child, 'message')) as [number[]];
    return { ports, child };
  };
  const [first = 0] = await freePorts(1);
  const one = await start(first + 1);
  const other = await start(first + 1);
  expect(other.ports.filter((port) => one.ports.includes(port))).toEqual([]);
  one.child.kill();
  await once(one.child, 'exit');
  expect((await start(first + 1)).ports.some((port) => one.ports.includes(port))).toBe(true);
});

test('claimPorts accepts a port that the same process has reserved', async () => {
  const [port = 0] = await freePorts(1);
  expect(await claimPorts({ one: port })).toEqual({ one: port });
});
