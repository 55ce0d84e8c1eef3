import { existsSync } from 'node:fs';
import { allContestants, npmScript } from '../../../../tools/bench/sync/contestants';

const contestants = allContestants({
  endpoint: 'http://127.0.0.1:9',
  python: '/bin/python3',
  peers: { s5cmd: '/bin/s5cmd', rclone: '/bin/rclone', aws: { packages: '/packages', program: '/bin/aws' } },
  home: '/home',
});

test('ours is the command line of the npm script', () => {
  const [program, ...rest] = npmScript('sync-models');
  expect(program).toBe(process.execPath);
  expect(rest.at(-1)).toBe('sync-models');
  expect(existsSync(rest.at(-2) as string)).toBe(true);
});

test('each brings the same folder to the same place of the same server', () => {
  for (const { name, sync } of contestants) {
    const { argv, env } = sync('/models', 'bench', 'one/prefix');
    const said = [...argv, ...Object.values(env)].join(' ');
    expect([name, said]).toEqual([name, expect.stringContaining('http://127.0.0.1:9')]);
    expect([name, said]).toEqual([name, expect.stringMatching(/\/models\/? .*bench\/one\/prefix/)]);
  }
});

test("nobody's own settings reach the programs", () => {
  process.env['AWS_PROFILE'] = 'mine';
  try {
    for (const { sync } of contestants) {
      const { env } = sync('/models', 'bench', 'prefix');
      expect(env).toMatchObject({ HOME: '/home', AWS_EC2_METADATA_DISABLED: 'true' });
      expect(env).not.toHaveProperty('AWS_PROFILE');
    }
  } finally {
    delete process.env['AWS_PROFILE'];
  }
});
