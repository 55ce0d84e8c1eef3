import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { RESTART_FILE } from '../../../src/agent/pod-files';
import { Serving } from '../../../src/agent/serving';
import type { ModelSwitcher } from '../../../src/agent/switch-models';
import type { Manifest } from '../../../src/release/manifest';
import type { ModelIndexEntry } from '../../../src/triton/client';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const DOWN = new Error('connection refused');
const HOUR = 3_600_000;
const LOADED: ModelIndexEntry = { name: 'a', version: '1', state: 'UNAVAILABLE', reason: 'out of memory' };
const NOT_LOADED: ModelIndexEntry = { name: 'a', version: '', state: '', reason: '' };

interface Pod {
  /** Answers of Triton's index in turn; the last one again and again. */
  answers?: (ModelIndexEntry[] | Error)[];
  restartMs?: number;
  /** What Triton lacks at each check. */
  lost?: string[][];
}

function servingOf({ answers = [DOWN], restartMs = HOUR, lost = [] }: Pod) {
  const events: string[] = [];
  let forgot = 0;
  let asked = 0;
  const serving = new Serving({
    switcher: {
      forgetLoads: () => (forgot += 1),
      checkNotes: () => Promise.resolve(lost.shift() ?? []),
      replaces: () => false,
      switch: () => Promise.resolve(),
    } as unknown as ModelSwitcher,
    triton: {
      modelConfig: () => Promise.reject(new Error('not expected')),
      repositoryIndex: () => {
        const answer = answers[Math.min(asked, answers.length - 1)] as ModelIndexEntry[] | Error;
        asked += 1;
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    },
    directory: scratch.directory,
    restartMs,
    isNew: () => true,
    leaveMs: 0,
    report: ({ event }) => events.push(event),
  });
  return { serving, events, forgotten: () => forgot, asked: () => asked };
}

test.each([
  { title: 'ends and starts again', answers: [[LOADED], DOWN, DOWN, [NOT_LOADED]], restartMs: HOUR, asked: 4 },
  { title: 'is already back when it is asked', answers: [[LOADED], [NOT_LOADED]], restartMs: HOUR, asked: 2 },
  { title: 'is down for longer than the limit', answers: [DOWN, DOWN, [NOT_LOADED]], restartMs: -1, asked: 3 },
])('a Triton that $title has been restarted', async ({ answers, restartMs, asked }) => {
  const made = servingOf({ answers, restartMs });
  await made.serving.restart(new AbortController().signal);
  expect(readFileSync(join(scratch.directory, RESTART_FILE), 'utf8')).toMatch(/^[0-9a-f]{16}\n$/);
  expect([made.events, made.forgotten(), made.asked()]).toEqual([['restart of Triton requested'], 1, asked]);
});

test('a Triton that answers as before after the limit has not been restarted', async () => {
  const { serving, events, forgotten } = servingOf({ answers: [[LOADED]], restartMs: -1 });
  await serving.restart(new AbortController().signal);
  expect(events).toEqual(['restart of Triton requested', 'Triton was not restarted']);
  expect(forgotten()).toBe(1);
});

const RELEASE = { models: {} } as unknown as Manifest;
const signal = new AbortController().signal;
const gets = (): boolean => existsSync(join(scratch.directory, 'serving'));

test('a pod whose Triton restarted during a switch gets no requests', async () => {
  const { serving } = servingOf({ lost: [[], [], [], ['a']] });
  await serving.switchTo(RELEASE, { signal, isReturn: false });
  serving.enter();
  expect([serving.isWhole, gets()]).toEqual([true, true]);
  await expect(serving.switchTo(RELEASE, { signal, isReturn: false })).rejects.toThrow('Triton restarted, or lost a');
  expect([serving.isWhole, gets()]).toEqual([false, false]);
});
