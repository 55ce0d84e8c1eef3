import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askLocal, isServed, localTests, untilLocal, untilUp } from '../support/local-command';
import { addingEnsemble, addingModel, writeRepository } from '../support/repository';
import { hanging, mixing } from '../support/local-models';
import { runCommandLine } from '../support/run';
import { until } from '../support/wait-for';

jest.setTimeout(1_200_000);

const { scratch, command } = localTests();
const { repository } = command;

const getPage = (): string => readFileSync(join(command.directory, 'page.html'), 'utf8');

/** The log of tritonserver until now. */
const tritonLog = (): string => {
  const file = join(command.directory, 'triton', 'triton.log');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
};

test('npm run local asks the first model while another is traced, serves each when it is ready, and checks it thoroughly later', async () => {
  const go = join(scratch.directory, 'go');
  writeRepository(repository, {
    ...mixing('mixes', go),
    ...addingModel('breaks', { 1: 5 }),
    'breaks/1/model.py': 'raise RuntimeError("no weights")\n',
  });
  const first = command.start();
  await untilLocal(first, () => /first answer after .*: adds y FP32/.test(first.said()));
  await untilLocal(first, () => /FAIL breaks: the model is not served/.test(first.said()));
  expect(first.said()).not.toContain('mixes answered');
  await untilLocal(first, () => /Still coming: mixes|No correct answer from breaks/.test(getPage()));
  expect(getPage()).toMatch(/data-name="mixes"[^]*?tracing/);
  first.child.kill('SIGINT');
  expect(await first.ended).toBe(130);
  expect(first.said()).not.toMatch(/\n\s+at /);
  command.expectNothingLeft();

  writeFileSync(go, '');
  const local = command.start();
  await untilUp(local);
  expect(local.said()).toMatch(/\n *mixes +1 +pytorch_libtorch +READY/);
  await untilLocal(local, () =>
    /FAIL mixes: the thorough check failed; it is served on this machine but cannot be published/.test(local.said()),
  );
  expect(local.said()).toMatch(/mixes: .*batch/);
  await untilLocal(local, () => /it cannot be published: the thorough check failed/.test(getPage()));
  expect(local.said()).toMatch(/\n *breaks +python +FAILED/);
  local.child.kill('SIGINT');
  expect(await local.ended).toBe(0);
  for (const name of ['mixes', 'breaks']) rmSync(join(repository, name), { recursive: true });
  rmSync(command.directory, { recursive: true });
});

test('npm run local killed during a hanging load leaves no servers or model processes', async () => {
  writeRepository(repository, hanging('never_loads', 'initialize(self, args)'));
  const local = command.start('--models', 'never_loads');
  await untilLocal(local, () => tritonLog().includes('ModelInstanceInitialize: never_loads'));
  local.child.kill('SIGKILL');
  await local.ended;
  await until('its servers ended', () => command.processes().length === 0);
  rmSync(join(repository, 'never_loads'), { recursive: true });
});

test('watch reloads other models while one hangs in its load or inference', async () => {
  writeRepository(repository, { ...addingModel('adds', { 1: 10 }), ...addingModel('other', { 1: 5 }) });
  const local = command.start();
  const { child, said, ended } = local;
  await untilUp(local);

  for (const [name, method, amount] of [
    ['never_answers', 'execute(self, requests)', 6],
    ['never_loads', 'initialize(self, args)', 7],
  ] as const) {
    writeRepository(repository, hanging(name, method));
    await untilLocal(local, () => said().includes(`${name}: files changed`));
    writeRepository(repository, addingModel('other', { 1: amount }));
    await untilLocal(local, () => isServed(local, 'other', amount - 5));
    expect(said()).toMatch(
      new RegExp(
        `FAIL ${name}: the model is not served\\n *${name} took too long and was stopped after 30 s, because other`,
      ),
    );
    expect(await askLocal(local, 'other')).toBe(amount + 1);
    writeRepository(repository, addingModel(name, { 1: 8 }));
    await untilLocal(local, () => isServed(local, name));
    expect(await askLocal(local, name)).toBe(9);
  }

  // The folder is deleted while its model is asked.
  writeRepository(repository, hanging('gone', 'execute(self, requests)'));
  await untilLocal(local, () => /serve: gone/.test(said()));
  rmSync(join(repository, 'gone'), { recursive: true });
  writeRepository(repository, addingModel('other', { 1: 8 }));
  await untilLocal(local, () => isServed(local, 'other', 3));

  child.kill('SIGINT');
  expect(await ended).toBe(0);
  expect(said()).not.toMatch(/\n\s+at /);
  for (const name of ['other', 'never_answers', 'never_loads']) rmSync(join(repository, name), { recursive: true });
});

/** A model with a golden request that expects another answer than the model's. */
const answeringWrongly = (name: string, amount: number): Record<string, string> => ({
  ...addingModel(name, { 1: amount }),
  [`${name}/golden/one.json`]: JSON.stringify({
    inputs: [{ name: 'x', data: [1] }],
    outputs: [{ name: 'y', data: [11] }],
  }),
});

/** The models of the current release, and what `status` reports about them. */
async function getRelease(): Promise<{ models: string[]; status: string }> {
  const flags = ['--local', '--repo', repository];
  const { stdout } = await runCommandLine('releases', [...flags, '--json']);
  const [current] = JSON.parse(stdout) as { serves: object }[];
  const status = await runCommandLine('status', [...flags, '--ask']);
  return { models: Object.keys(current?.serves ?? {}), status: status.stdout };
}

test('npm run local serves the previous version of a model that answers wrongly, and --no-ask serves it', async () => {
  rmSync(command.directory, { recursive: true, force: true });
  writeRepository(repository, {
    ...answeringWrongly('adds', 10),
    ...addingEnsemble('through', 'adds'),
    ...answeringWrongly('wrong', 3),
    ...addingEnsemble('on_wrong', 'wrong'),
  });
  const once = await command.run(['--once']);
  expect(once).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /cannot serve every model\n +wrong: wrong version 1 gives a wrong answer to golden request one/,
    ) as string,
  });
  expect(once.stdout).toMatch(/\n *wrong +python +FAILED: wrong version 1 gives a wrong answer/);

  writeRepository(repository, answeringWrongly('adds', 20));
  const local = command.start();
  const { said, child, ended } = local;
  await untilUp(local);
  // The edit of adds and both models without a previous version are left out. The ensemble has the previous step.
  expect(said()).toMatch(/\n *adds +1 +python +FAILED: the previous version is served\. adds version 1 gives/);
  expect(said()).toMatch(/\n *on_wrong .*FAILED: needs wrong, which failed/);
  expect(said()).toMatch(/FAILED: adds, on_wrong, wrong\. Fix /);
  expect(await askLocal(local, 'adds')).toBe(11);
  expect(await askLocal(local, 'through')).toBe(11);
  expect(await askLocal(local, 'wrong')).toMatch(/not found|not ready|no available/);
  const atStart = await getRelease();
  expect(atStart.models).toEqual(['adds', 'through']);
  expect(atStart.status).toMatch(/as released, READY +.*adds 1 /);
  expect(atStart.status).toMatch(/adds +ok +answered 1 golden request/);
  expect(atStart.status).not.toMatch(/wrong/);

  // A correct model, edited wrongly while it is served.
  writeRepository(repository, answeringWrongly('wrong', 10));
  await untilLocal(local, () => isServed(local, 'on_wrong'));
  writeRepository(repository, answeringWrongly('wrong', 4));
  await untilLocal(local, () => /FAIL wrong: the previous version is served/.test(said()));
  expect(said()).toMatch(/wrong version 1 gives a wrong answer to golden request one: y\[0\] is 5, expected 11/);
  expect(said()).toContain('--no-ask');
  expect(await askLocal(local, 'wrong')).toBe(11);
  expect(await askLocal(local, 'on_wrong')).toBe(11);
  // The page is written after the line.
  await untilLocal(local, () =>
    /FAILED<\/span>\s*<span class="reason">the previous version is served\. wrong version 1 gives/.test(getPage()),
  );
  const afterEdit = await getRelease();
  expect(afterEdit.models).toEqual(['adds', 'on_wrong', 'through', 'wrong']);
  expect(afterEdit.status).toMatch(/wrong +ok +answered 1 golden request/);
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  // Only once, although its step was published first.
  expect(said().split('on_wrong answered')).toHaveLength(2);

  const unasked = command.start('--no-ask');
  await untilUp(unasked);
  expect(await askLocal(unasked, 'adds')).toBe(21);
  expect(await askLocal(unasked, 'wrong')).toBe(5);
  unasked.child.kill('SIGINT');
  expect(await unasked.ended).toBe(0);
  for (const name of ['adds/golden', 'through', 'wrong', 'on_wrong'])
    rmSync(join(repository, name), { recursive: true });
});
