import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { askLocal, isServed, localTests, untilLocal, untilUp } from '../support/local-command';
import { addingEnsemble, addingModel, answeringProgram, writeRepository } from '../support/repository';
import { hanging, mixing } from '../support/local-models';
import { runCommandLine } from '../support/run';

jest.setTimeout(1_200_000);

const { scratch, command } = localTests();
const { repository } = command;

/** Files of a model, with the first statement of `execute` replaced. */
const answering = (name: string, statement: string): Record<string, string> => {
  const files = addingModel(name, { 1: 1 });
  const program = `${name}/1/model.py`;
  return { ...files, [program]: (files[program] as string).replace('        responses = []', statement) };
};
const REFUSES_ZEROS = `        responses = []
        if not np.from_dlpack(pb_utils.get_input_tensor_by_name(requests[0], "x")).any():
            raise ValueError("x must not be zero")`;

const getPage = (): string => readFileSync(join(command.directory, 'page.html'), 'utf8');

test('watch keeps serving other models when some fail, and serves these once their files are fixed', async () => {
  writeRepository(repository, {
    ...hanging('never_loads', 'initialize(self, args)'),
    ...hanging('never_answers', 'execute(self, requests)'),
    ...addingEnsemble('on_never', 'never_loads'),
    ...addingModel('breaks', { 1: 5 }),
    'breaks/1/model.py': 'raise RuntimeError("no weights")\n',
    ...addingModel('invalid', { 1: 6 }),
    'invalid/config.pbtxt': 'backend: "python"\nmax_batch_size: -1\n',
    ...addingEnsemble('on_invalid', 'invalid'),
    ...answering('picky', REFUSES_ZEROS),
    ...mixing('never_traced', join(scratch.directory, 'missing')),
  });
  const local = command.start('--load-timeout', '40');
  const { child, said, ended } = local;
  await untilUp(local);
  expect(await askLocal(local, 'adds')).toBe(11);
  expect(await askLocal(local, 'picky')).toBe(2);
  expect(said()).toMatch(/\n *never_loads +python +FAILED: never_loads took too long and was stopped/);
  expect(said()).toMatch(/\n *never_answers +python +FAILED: never_answers took too long and was stopped/);
  expect(said()).toMatch(
    /FAILED: never_traced: the trace did not end within 40 s; last step: build at .*never_traced\/trace\.py:1[67]/,
  );
  expect(said()).toMatch(/\n *on_never .*FAILED: needs never_loads, which failed/);
  // A release must be usable for rollbacks, so it has no model that failed.
  const { stdout } = await runCommandLine('releases', ['--local', '--repo', repository, '--json']);
  const served = (JSON.parse(stdout) as { serves: object }[]).map(({ serves }) => Object.keys(serves).join());
  expect(new Set(served)).toEqual(new Set(['', 'adds,picky']));
  expect(said()).toMatch(/\n *adds +1 +python +READY/);
  expect(said()).toMatch(/\n *breaks +python +FAILED: Triton cannot load breaks: .*no weights/);
  expect(said()).toMatch(
    /breaks FAILED: .*no weights \(breaks\/1\/model\.py, line 1, in <module>\)\n {2}-> read Triton's log: \S+triton\.log/,
  );
  expect(said()).toMatch(/\n *invalid +FAILED: max_batch_size: must not be negative, got -1/);
  expect(said()).toMatch(/\n *on_invalid .*FAILED: needs invalid, which failed/);
  expect(said()).toMatch(
    /\npicky: the zero request failed: .*x must not be zero \(picky\/1\/model\.py, line \d+, in execute\)/,
  );
  expect(said()).toContain('add golden requests with valid input: picky/golden/CASE.json');
  expect(said()).toMatch(
    /FAILED: breaks, invalid, never_answers, never_loads, never_traced, on_invalid, on_never\. Fix .*loads them again when their files change/,
  );
  expect(getPage()).toContain(
    'No correct answer from breaks, invalid, never_answers, never_loads, never_traced, on_invalid, on_never, picky',
  );

  // Another edit that fails: the model was not served before, so nothing is restored.
  writeRepository(repository, { 'breaks/1/model.py': 'raise RuntimeError("still no weights")\n' });
  await untilLocal(local, () => /Triton cannot load breaks: .*still no weights/.test(said()));
  expect(said()).not.toMatch(/Restoring the previous release/);
  expect(getPage()).toContain('never_loads took too long and was stopped after 40 s');

  // A model whose folder is deleted is no longer reported.
  rmSync(join(repository, 'never_traced'), { recursive: true });
  // Fix all models. Each ensemble is loaded after the model that it needs.
  writeRepository(repository, { ...addingModel('never_loads', { 1: 7 }), ...addingModel('never_answers', { 1: 7 }) });
  await untilLocal(local, () => isServed(local, 'on_never'));
  expect(await askLocal(local, 'on_never')).toBe(8);
  writeRepository(repository, addingModel('breaks', { 1: 5 }));
  writeRepository(repository, addingModel('invalid', { 1: 6 }));
  await untilLocal(local, () => isServed(local, 'on_invalid'));
  await untilLocal(local, () => isServed(local, 'breaks'));
  expect(await askLocal(local, 'breaks')).toBe(6);
  expect(await askLocal(local, 'on_invalid')).toBe(7);
  await untilLocal(
    local,
    () => !/FAILED|No correct answer from [^<]*breaks/.test(getPage().replace(/picky[^<]*/g, '')),
  );

  // An edit that fails at a request that the model answered before.
  writeRepository(repository, { 'breaks/1/model.py': answeringProgram('x', 'y', '1 / 0') });
  await untilLocal(local, () => /FAIL breaks: the previous version is served/.test(said()));
  expect(said()).toMatch(/breaks version 1 failed on the zero request: .*division[^]*answered zeros before/);
  expect(await askLocal(local, 'breaks')).toBe(6);

  // Change the files of a version, add a model, then break a model.
  writeRepository(repository, { ...addingModel('adds', { 1: 20 }), ...addingModel('fresh', { 1: 3 }) });
  await untilLocal(local, () => isServed(local, 'fresh'));
  expect(await askLocal(local, 'adds')).toBe(21);
  expect(await askLocal(local, 'fresh')).toBe(4);
  writeRepository(repository, { 'adds/1/model.py': 'this is no Python\n' });
  await untilLocal(local, () => /FAIL adds: the previous version is served/.test(said()));
  expect(await askLocal(local, 'adds')).toBe(21);
  writeRepository(repository, { 'adds/config.pbtxt': 'nonsense: 1\n' });
  await untilLocal(local, () => (said().match(/FAIL adds/g) ?? []).length === 2);
  expect(await askLocal(local, 'adds')).toBe(21);
  // Only the first failure is in Triton's log.
  const [first = '', second = ''] = said().split('FAIL adds').slice(1);
  expect([first, second].map((text) => text.includes("read Triton's log"))).toEqual([true, false]);

  child.kill('SIGINT');
  expect(await ended).toBe(0);
  expect(said()).not.toMatch(/\n\s+at /);
});
