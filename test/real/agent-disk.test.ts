import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeUnless } from '../support/describe-unless';
import { ReleaseWriter, TestAgent } from '../support/agent';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const directory = join(scratch.directory, 'pod');
const DISK = '16m';

/** Mounts a small file system for the agent and its Triton. */
function whyNoDisk(): string | undefined {
  mkdirSync(directory);
  const { status, stderr, error } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK}`, 'tmpfs', directory], {
    encoding: 'utf8',
  });
  if (status !== 0) return `mount needs root: ${error?.message ?? stderr.trim()}`;
  scratch.defer(() => void spawnSync('umount', ['--lazy', directory]));
  return undefined;
}

describeUnless(whyNoDisk(), 'a disk that becomes full during a trial', () => {
  test('takes nothing away that is served', async () => {
    const { endpoint } = await testS3(scratch);
    const store = await openBucket(scratch, endpoint, 'disk');
    const releases = new ReleaseWriter(store);
    const agent = await TestAgent.create(scratch, 'pod');
    const ballast = join(directory, 'ballast');
    let isFilling = false;
    await agent.start(store, {
      leaveMs: 0,
      watchMs: 100,
      retryMs: 200,
      onEvent: (event) => {
        agent.events.push(event);
        if (!isFilling || event.event !== 'load') return;
        isFilling = false;
        fill(ballast);
      },
    });
    // More than a file system in memory still gives when it is full.
    const note = `parameters { key: "note" value { string_value: "${'x'.repeat(400 * 1024)}" } }\n`;
    const model = (version: number) => ({
      served: [version],
      files: { [`${version}/weights`]: String(version) },
      config: `name: "a" backend: "empty" instance_group [{ kind: KIND_CPU }]\n${note}`,
    });
    const first = await releases.write({ a: model(1) });
    await releases.commit(first);
    const isHome = (): boolean => agent.state.ready && agent.state.release === first.id;
    await until('the first release', isHome);
    await until('its spare space', () => existsSync(join(directory, 'spare')));

    const second = await releases.write({
      a: model(2),
      b: { served: [1], files: { '1/weights': 'b' } },
    });
    isFilling = true;
    await agent.try(second);
    await until('the trial was refused', () => agent.state.lastTrial?.outcome === 'refused');
    expect(agent.state.lastTrial?.reason).toContain('no space left on device');
    await until('the first release again', isHome);

    rmSync(ballast);
    await agent.try(second);
    await until('the second release', () => agent.state.trial?.phase === 'served');
    await releases.commit(second);
    await until('it is home', () => agent.state.home === second.id);
    await until('its spare space', () => existsSync(join(directory, 'spare')));
  }, 300_000);
});

/** Writes until the disk is full to its last byte. */
function fill(path: string): void {
  for (const bytes of [1024 * 1024, 4096, 1]) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(bytes, 1), { flag: 'a' });
    } catch {
      // Full.
    }
  }
}
