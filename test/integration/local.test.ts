import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import sharp from 'sharp';
import { exec } from '../../src/core/exec';
import { findLocalStack } from '../../src/local/state';
import { FACE } from '../../src/local/sample-requests';
import { localDirectory } from '../../src/local/stack';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { paths } from '../../src/core/paths';
import {
  accessibilityProblems,
  decodedPictures,
  launchBrowser,
  openFile,
  getRows,
  whyNoBrowser,
  type OpenedPage,
  type View,
} from '../support/browser';
import { describeUnless } from '../support/describe-unless';
import { getAddress, LocalCommand, untilLocal, untilUp } from '../support/local-command';
import { pictureModels } from '../support/picture-models';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
const { repository } = command;

afterAll(() => scratch.clean());

describe('--once', () => {
  // Models with pictures for the page, and a model that cannot be served on this machine.
  const more = {
    ...pictureModels(),
    'on_a_gpu/config.pbtxt':
      'platform: "tensorrt_plan"\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n',
  };
  let finished: Finished;
  beforeAll(async () => {
    writeRepository(repository, more);
    finished = await command.run(['--once', '--json']);
  });
  afterAll(() => {
    for (const path of Object.keys(more))
      rmSync(join(repository, path.split('/')[0] ?? ''), { recursive: true, force: true });
  });
  afterEach(() => command.expectNothingLeft());

  test('serves a repository, sends requests over HTTP and gRPC, and cleans up', () => {
    expect(finished).toMatchObject({ code: 0 });
    const { models, notServed, answers } = JSON.parse(finished.stdout) as Record<string, Record<string, unknown>[]>;
    expect(models?.map(({ model, version, platform, state }) => [model, version, platform, state])).toEqual([
      ['adds', '1', 'python', 'READY'],
      ['ens_face_restoration_v2.1', '1', 'ensemble', 'READY'],
      ['negative', '1', 'python', 'READY'],
      ['on_a_gpu', '', 'tensorrt_plan', 'not served here'],
      ['resnet', '1', 'python', 'READY'],
    ]);
    expect(notServed).toEqual([
      { model: 'on_a_gpu', reason: 'a TensorRT plan runs only on the GPU type that built it' },
    ]);
    expect(answers?.map(({ model, protocol, result }) => [model, protocol, result])).toEqual([
      ['adds', 'HTTP', 'y FP32 [1]'],
      ['adds', 'gRPC', 'same as over HTTP'],
      ['ens_face_restoration_v2.1', 'HTTP', 'UINT8 [256, 256, 3] restored picture, from 0 to 255'],
      ['ens_face_restoration_v2.1', 'gRPC', 'same as over HTTP'],
      ['negative', 'HTTP', 'y UINT8 [1, 1, 3]'],
      ['negative', 'gRPC', 'same as over HTTP'],
      ['resnet', 'HTTP', 'FP32 [1, 3], highest "b <b>" (50.00)'],
      ['resnet', 'gRPC', 'same as over HTTP'],
    ]);
  });

  describeUnless(whyNoBrowser(), 'its page in a real browser', () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await launchBrowser();
    });
    afterAll(() => browser.close());

    const open = (view: View): Promise<OpenedPage> =>
      openFile(browser, (JSON.parse(finished.stdout) as { page: string }).page, view);

    test('the page shows the state of every model and every picture, and sends no requests', async () => {
      const { page, said, requests } = await open({ width: 1200, colorScheme: 'light' });
      expect(await page.title()).toBe('4 models on Triton');
      const models = await getRows(page, 'models');
      expect(models.map(([model, platform, version, state]) => [model, platform, version, state])).toEqual([
        ['adds', 'python', '1', 'READY'],
        ['ens_face_restoration_v2.1', 'ensemble', '1', 'READY'],
        ['negative', 'python', '1', 'READY'],
        ['on_a_gpu', 'tensorrt_plan', '-', 'not served here a TensorRT plan runs only on the GPU type that built it'],
        ['resnet', 'python', '1', 'READY'],
      ]);
      expect((await getRows(page, 'requests')).map(([model, answer]) => [model, answer])).toEqual([
        ['adds', 'y FP32 [1]'],
        ['ens_face_restoration_v2.1', 'UINT8 [256, 256, 3] restored picture, from 0 to 255'],
        ['negative', 'y UINT8 [1, 1, 3]'],
        ['resnet', 'FP32 [1, 3], highest "b <b>" (50.00)'],
      ]);
      expect(await page.locator('[data-exhibit=resnet] .values li').allInnerTexts()).toEqual([
        'b <b>\n100.0 %',
        'a\n0.0 %',
        'c\n0.0 %',
      ]);
      expect(said).toEqual([]);
      expect(requests).toEqual([]);
    });

    test('the page shows pictures of requests and answers in their own sizes', async () => {
      const { page } = await open({ width: 1200, colorScheme: 'light' });
      const pictures = await decodedPictures(page);
      expect(pictures.map(({ size, alt }) => [size, alt])).toEqual([
        [[256, 256], 'Photograph of a face: the input'],
        [[256, 256], 'The answer: the restored face'],
        [[224, 224], 'The part of the photograph that was classified'],
      ]);
      const [sent, answered] = pictures.map(({ pixels }) => pixels);
      const data = await sharp(FACE).ensureAlpha().raw().toBuffer();
      expect(sent?.equals(data)).toBe(true);
      // The test's ensemble inverts each colour. The fourth value is the opacity.
      const negative = data.map((value, i) => (i % 4 === 3 ? 255 : 255 - value));
      expect(answered?.equals(negative)).toBe(true);
    });

    test.each([
      { width: 1200, colorScheme: 'light' },
      { width: 1200, colorScheme: 'dark' },
      { width: 800, colorScheme: 'light' },
      { width: 360, colorScheme: 'light' },
      { width: 360, colorScheme: 'dark' },
    ] as const)('the page has no accessibility violations and fits, $width pixels wide, $colorScheme', async (view) => {
      const { page } = await open(view);
      expect(await accessibilityProblems(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(view.width);
      const background = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      const brightness = Number(/\d+/.exec(background)?.[0]);
      expect(brightness > 128 ? 'light' : 'dark').toBe(view.colorScheme);
    });
  });
});

/** The commands on the page whose address is in `text`. */
function pageCommands(text: string): string[] {
  const page = readFileSync(fileURLToPath(/file:\S+/.exec(text)?.[0] ?? ''), 'utf8');
  const list = /<dl class="card commands">.*?<\/dl>/s.exec(page)?.[0] ?? '';
  return [...list.matchAll(/<code>(.*?)<\/code>/gs)].map(([, command = '']) => command.replaceAll('&#39;', "'"));
}

// These tests run at the same time, because they mostly wait for servers.

test.concurrent('npm run local runs until Ctrl-C and then exits with 0', async () => {
  const local = command.start();
  const { child, said, ended } = local;
  await untilUp(local);
  const http = getAddress(local, 'Triton HTTP');
  expect((await fetch(`${http}/v2/models/adds/ready`)).status).toBe(200);
  expect((await fetch(getAddress(local, 'Triton metrics'))).status).toBe(200);

  // The commands on the page work unchanged.
  const commands = pageCommands(said());
  expect(commands).toHaveLength(3);
  for (const { stdout } of await Promise.all(commands.map((one) => exec('sh', ['-c', one])))) {
    expect(stdout).toContain('adds');
  }

  // The commands in the terminal work when they are pasted together.
  const printed = /Run in another terminal:\n\n(.*?)\n\nCtrl-C/s.exec(said())?.[1] ?? '';
  expect(printed.split('\n')).toHaveLength(2);
  const { stdout } = await exec('sh', ['-ec', printed], { cwd: paths.root });
  expect(stdout).toContain(`npm run infer -- adds x=FILE.npy --local --repo ${repository}\n`);
  expect(stdout).toMatch(/as released, READY +adds 1 /);

  // All other commands find the local stack without variables or addresses.
  expect(statSync(join(localDirectory(repository), 'state.json')).mode & 0o777).toBe(0o600);
  const onLocal = (name: string, ...flags: string[]): Promise<Finished> =>
    runCommandLine(name, ['--local', '--repo', repository, ...flags]);
  const [releases, synced, rolledBack, second] = await Promise.all([
    onLocal('releases'),
    onLocal('sync-models'),
    onLocal('rollback', '--dry-run'),
    command.run(['--once']),
  ]);
  expect(releases).toMatchObject({ code: 0, stdout: expect.stringContaining('adds') as string });
  expect(synced).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/Nothing to publish.*Every replica serves it/) as string,
  });
  // The release of the first test still exists, with models that are no longer served.
  expect(rolledBack).toMatchObject({ code: 0, stdout: expect.stringContaining('negative') as string });
  expect(second).toMatchObject({ code: 1, stderr: expect.stringMatching(/is in use by process \d+/) as string });

  // npm and the terminal may both send SIGINT. Two signals still end the command in order.
  child.kill('SIGINT');
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  await expect(fetch(`${http}/v2/health/live`)).rejects.toThrow();
  expect(await onLocal('status')).toMatchObject({ code: 1, stderr: expect.stringMatching(NOT_RUNNING) as string });
  command.expectNothingLeft();
});

const NOT_RUNNING = /--local: "npm run local" (is not running|does not serve .*)\n {2}-> .*npm run local -- --repo /;

test.concurrent('npm run local stops all processes if interrupted while the server starts', async () => {
  const own = new LocalCommand(scratch, 'interrupted');
  const local = own.start();
  const { child, said, ended } = local;
  await untilLocal(local, () => own.processes().some((line) => line.includes('bin/tritonserver')));
  child.kill('SIGTERM');
  expect(await ended).toBe(130);
  expect(said()).not.toMatch(/\n\s+at |FAIL/);
  own.expectNothingLeft();
});

test.concurrent('npm run local serves only the selected models, not those that an earlier run published', async () => {
  const own = new LocalCommand(scratch, 'selected');
  writeRepository(own.repository, addingModel('adds_too', { 1: 1 }));
  expect(await own.run(['--once'])).toMatchObject({ code: 0 });
  const local = own.start('--models', 'adds');
  const { child, ended } = local;
  await untilUp(local);
  const { modelControlKey: key } = findLocalStack(own.repository);
  const index = await fetch(`${getAddress(local, 'Triton HTTP')}/v2/repository/index`, {
    method: 'POST',
    headers: { [CONTROL_HEADER]: key },
  });
  const models = (await index.json()) as { name: string; state?: string }[];
  expect(models.filter(({ state }) => state === 'READY').map(({ name }) => name)).toEqual(['adds']);
  const { code, stdout } = await runCommandLine('status', ['--local', '--repo', own.repository]);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.not.stringContaining('adds_too') as string });
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  own.expectNothingLeft();
});

test.concurrent('npm run local leaves no servers when killed, and the next run cleans up and works', async () => {
  const own = new LocalCommand(scratch, 'killed');
  const local = own.start();
  const { child, ended } = local;
  await untilUp(local);
  child.kill('SIGKILL');
  await ended;
  expect(() => findLocalStack(own.repository)).toThrow(/--local: "npm run local" (is not running|does not serve)/);
  await until('its servers ended', () => own.processes().length === 0);
  expect(await own.run(['--once'])).toMatchObject({ code: 0 });
  own.expectNothingLeft();
});

// UPDATE_DOCS=1 npm test -- --only integration --filter integration/local
if (process.env['UPDATE_DOCS'] === '1') {
  test('updates the picture in README', async () => {
    const path = join(scratch.directory, 'page.html');
    expect(await command.run(['--repo', paths.modelRepository, '--once', '--page', path])).toMatchObject({ code: 0 });
    const browser = await launchBrowser();
    scratch.defer(() => browser.close());
    const { page } = await openFile(browser, path, { width: 1160, colorScheme: 'light' });
    const models = await page.locator('section[aria-labelledby=models]').boundingBox();
    const height = Math.ceil((models?.y ?? 0) + (models?.height ?? 0)) + 24;
    const picture = await page.screenshot({ fullPage: true, clip: { x: 0, y: 0, width: 1160, height } });
    // Reduce the file size without a visible loss of quality.
    const { size } = await sharp(picture)
      .png({ palette: true, colours: 256, effort: 10 })
      .toFile(join(paths.root, 'docs', 'images', 'local.png'));
    expect(size).toBeLessThan(250_000);
  });
}
