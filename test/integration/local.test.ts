import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import sharp from 'sharp';
import { LOCAL_CREDENTIALS } from '../../scripts/lib/local/s3-server';
import { exec } from '../../scripts/lib/exec';
import { writePage } from '../../scripts/lib/local/page';
import type { LocalResult } from '../../scripts/lib/local/report';
import { FACE } from '../../scripts/lib/local/samples';
import { localDirectory } from '../../scripts/lib/local/stack';
import { paths } from '../../scripts/lib/paths';
import {
  accessibilityProblems,
  decodedPictures,
  launchBrowser,
  openFile,
  rowsOf,
  whyNoBrowser,
  type OpenedPage,
  type View,
} from '../support/browser';
import { describeUnless } from '../support/describe-unless';
import { pictureModels } from '../support/picture-models';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { Scratch } from '../support/scratch';
import { until } from '../support/until';

jest.setTimeout(600_000);
/** What `npm run local` may take on a busy machine. */
const START_MS = 180_000;

const scratch = new Scratch();
const repository = writeRepository(join(scratch.directory, 'repository'), addingModel('adds', { 1: 10 }));
/** Everything a local stack starts has this folder on its command line. */
const directory = localDirectory(repository);
const PORTS = ['--http-port', '0', '--grpc-port', '0', '--metrics-port', '0', '--s3-port', '0'];
const leftovers = listLeftovers();

scratch.defer(() => rmSync(directory, { recursive: true, force: true }));
afterAll(() => scratch.clean());
afterEach(() => {
  expect(ourProcesses()).toEqual([]);
  // Nothing tells whose they are while other servers of these kinds run on this machine.
  if (processes().some((command) => /bin\/tritonserver |\/weed server /.test(command))) return;
  expect(listLeftovers().filter((name) => !leftovers.includes(name))).toEqual([]);
});

/** Processes of this repository's stack. */
const ourProcesses = (): string[] => processes().filter((command) => command.includes(directory));

/** Command lines of all processes. */
function processes(): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return ''; // Gone meanwhile.
      }
    });
}

/** What servers may leave outside of their folder. */
function listLeftovers(): string[] {
  const shared = readdirSync('/dev/shm').filter((name) => name.startsWith('triton-serving-'));
  const temporary = readdirSync('/tmp').filter((name) => /^(seaweedfs-.*\.sock|folder\w+|python_env_\w+)$/.test(name));
  return [...shared, ...temporary].sort();
}

/** `npm run local` in the background. */
function start(...args: string[]): { child: ChildProcess; said: () => string; ended: Promise<number | null> } {
  const child = spawn(
    process.execPath,
    [join(paths.scripts, 'run.mjs'), 'local', '--repo', repository, ...PORTS, ...args],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more: string) => (text += more));
  return { child, said: () => text, ended: new Promise((resolve) => child.once('close', resolve)) };
}

/** Waits for long, as the machine may be busy. */
/** Waits for a sign of `npm run local`; fails at once when it has ended instead. */
async function untilLocal({ child, said }: ReturnType<typeof start>, condition: () => boolean): Promise<void> {
  await until('it came so far', () => condition() || child.exitCode !== null, START_MS);
  if (!condition()) throw new Error(`it ended with ${child.exitCode}:\n${said()}`);
}

/** Waits until it says that everything is there. */
const untilUp = (local: ReturnType<typeof start>): Promise<void> =>
  untilLocal(local, () => local.said().includes('Ctrl-C stops everything'));

function address(text: string, what: string): string {
  return new RegExp(`${what}\\s+(\\S+)`).exec(text)?.[1] ?? '';
}

describe('--once', () => {
  // With models that have something to show, and one that cannot be served here.
  const more = {
    ...pictureModels(),
    'on_a_gpu/config.pbtxt':
      'platform: "tensorrt_plan"\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n',
  };
  let finished: Finished;
  beforeAll(async () => {
    writeRepository(repository, more);
    finished = await runCommandLine('local', ['--repo', repository, '--once', '--json', ...PORTS]);
  });
  afterAll(() => {
    for (const path of Object.keys(more))
      rmSync(join(repository, path.split('/')[0] ?? ''), { recursive: true, force: true });
  });

  test('serves a repository of the user’s own, asks it over HTTP and gRPC, and ends with nothing left', () => {
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
      { model: 'on_a_gpu', reason: 'a TensorRT plan runs only on the kind of GPU that it was built on' },
    ]);
    expect(answers?.map(({ model, protocol, result }) => [model, protocol, result])).toEqual([
      ['adds', 'HTTP', 'y FP32 [1]'],
      ['adds', 'gRPC', 'the same'],
      ['ens_face_restoration_v2.1', 'HTTP', 'UINT8 [256, 256, 3] restored picture, from 0 to 255'],
      ['ens_face_restoration_v2.1', 'gRPC', 'the same'],
      ['negative', 'HTTP', 'y UINT8 [1, 1, 3]'],
      ['negative', 'gRPC', 'the same'],
      ['resnet', 'HTTP', 'FP32 [1, 3], highest "b <b>" (50.00)'],
      ['resnet', 'gRPC', 'the same'],
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

    test('tells the state of every model, shows every picture, and asks nobody for anything', async () => {
      const { page, said, requests } = await open({ width: 1200, colorScheme: 'light' });
      expect(await page.title()).toBe('4 models on Triton');
      const models = await rowsOf(page, 'models');
      expect(models.map(([model, platform, version, state]) => [model, platform, version, state])).toEqual([
        ['adds', 'python', '1', 'READY'],
        ['ens_face_restoration_v2.1', 'ensemble', '1', 'READY'],
        ['negative', 'python', '1', 'READY'],
        [
          'on_a_gpu',
          'tensorrt_plan',
          '-',
          'not served here a TensorRT plan runs only on the kind of GPU that it was built on',
        ],
        ['resnet', 'python', '1', 'READY'],
      ]);
      expect((await rowsOf(page, 'requests')).map(([model, answer]) => [model, answer])).toEqual([
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

    test('every picture is decoded in its own size, and is the one that was sent and the one that came back', async () => {
      const { page } = await open({ width: 1200, colorScheme: 'light' });
      const pictures = await decodedPictures(page);
      expect(pictures.map(({ size, alt }) => [size, alt])).toEqual([
        [[256, 256], 'Photograph of a face, as it was sent'],
        [[256, 256], 'The answer: the restored face'],
        [[224, 224], 'The part of the photograph that was classified'],
      ]);
      const [sent, answered] = pictures.map(({ pixels }) => pixels);
      const data = await sharp(FACE).ensureAlpha().raw().toBuffer();
      expect(sent?.equals(data)).toBe(true);
      // What the ensemble of this test does, colour by colour; the fourth value is the opacity.
      const negative = data.map((value, i) => (i % 4 === 3 ? 255 : 255 - value));
      expect(answered?.equals(negative)).toBe(true);
    });

    test.each([
      { width: 1200, colorScheme: 'light' },
      { width: 1200, colorScheme: 'dark' },
      { width: 800, colorScheme: 'light' },
      { width: 360, colorScheme: 'light' },
      { width: 360, colorScheme: 'dark' },
    ] as const)('keeps nobody out and fits, $width pixels wide, $colorScheme', async (view) => {
      const { page } = await open(view);
      expect(await accessibilityProblems(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(view.width);
      const background = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      const brightness = Number(/\d+/.exec(background)?.[0]);
      expect(brightness > 128 ? 'light' : 'dark').toBe(view.colorScheme);
    });

    test('what models and their errors are called is text, whatever it is', async () => {
      const hostile = `</code><script>alert(1)</script><img src=x onerror=alert(2)>'"&amp;`;
      const path = join(scratch.directory, 'hostile.html');
      const result = JSON.parse(finished.stdout) as LocalResult;
      result.models = result.models.map((row) => ({ ...row, model: hostile, platform: hostile, weights: hostile }));
      result.answers = result.answers.map((answer) => ({ ...answer, model: hostile, error: hostile }));
      await writePage(path, { result, repository: hostile, once: false, made: new Date() });
      const { page, said, requests } = await openFile(browser, path, { width: 360, colorScheme: 'light' });
      expect((await rowsOf(page, 'models'))[0]?.slice(0, 2)).toEqual([hostile, hostile]);
      expect(await page.locator('script, img').count()).toBe(0);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
      expect([said, requests]).toEqual([[], []]);
    });
  });
});

/** The commands of the page whose address was printed. */
function pageCommands(text: string): string[] {
  const page = readFileSync(fileURLToPath(/file:\S+/.exec(text)?.[0] ?? ''), 'utf8');
  const list = /<dl class="card commands">.*?<\/dl>/s.exec(page)?.[0] ?? '';
  return [...list.matchAll(/<code>(.*?)<\/code>/gs)].map(([, command = '']) => command.replaceAll('&#39;', "'"));
}

test('stays up until Ctrl-C, which is a good end', async () => {
  const local = start();
  const { child, said, ended } = local;
  await untilUp(local);
  const http = address(said(), 'Triton HTTP');
  expect((await fetch(`${http}/v2/models/adds/ready`)).status).toBe(200);
  expect((await fetch(address(said(), 'Triton metrics'))).status).toBe(200);

  // What the page tells one to try works as it stands there.
  const commands = pageCommands(said());
  expect(commands).toHaveLength(3);
  for (const command of commands) expect((await exec('sh', ['-c', command])).stdout).toContain('adds');

  const second = await runCommandLine('local', ['--repo', repository, '--once', ...PORTS]);
  expect(second).toMatchObject({ code: 1, stderr: expect.stringMatching(/is in use by process \d+/) as string });

  // Twice at once, as npm and the terminal may send it: still an orderly end.
  child.kill('SIGINT');
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  await expect(fetch(`${http}/v2/health/live`)).rejects.toThrow();
});

test('interrupted while the server starts: stops what was started', async () => {
  const local = start();
  const { child, said, ended } = local;
  await untilLocal(local, () => ourProcesses().some((command) => command.includes('bin/tritonserver')));
  child.kill('SIGTERM');
  expect(await ended).toBe(130);
  expect(said()).not.toMatch(/\n\s+at /);
});

test('serves what was asked for, and not what an earlier run published', async () => {
  writeRepository(repository, addingModel('adds_too', { 1: 1 }));
  expect(await runCommandLine('local', ['--repo', repository, '--once', ...PORTS])).toMatchObject({ code: 0 });
  const local = start('--models', 'adds');
  const { child, said, ended } = local;
  await untilUp(local);
  const index = await fetch(`${address(said(), 'Triton HTTP')}/v2/repository/index`, { method: 'POST' });
  const models = (await index.json()) as { name: string; state?: string }[];
  expect(models.filter(({ state }) => state === 'READY').map(({ name }) => name)).toEqual(['adds']);
  const target = [
    '--bucket',
    's3://local/models',
    '--endpoint-url',
    address(said(), 'S3 '),
    '--triton',
    address(said(), 'Triton HTTP'),
  ];
  const { code, stdout } = await runCommandLine('status', target, {
    AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
  });
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.not.stringContaining('adds_too') as string });
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  rmSync(join(repository, 'adds_too'), { recursive: true });
});

test('killed: the system ends the servers, and the next run cleans up and works', async () => {
  const local = start();
  const { child, ended } = local;
  await untilUp(local);
  child.kill('SIGKILL');
  await ended;
  await until('its servers ended', () => ourProcesses().length === 0);
  expect(await runCommandLine('local', ['--repo', repository, '--once', ...PORTS])).toMatchObject({ code: 0 });
});

describe('clear errors, and nothing started', () => {
  let server: Server;
  let busy: number;
  beforeAll(async () => {
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    busy = (server.address() as AddressInfo).port;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  test('a port in use: says who has it and which flag chooses another', async () => {
    const finished = await runCommandLine('local', [
      '--repo',
      repository,
      '--once',
      ...PORTS,
      '--grpc-port',
      String(busy),
    ]);
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain(`port ${busy} (--grpc-port) is in use by`);
    expect(finished.stderr).toContain(`(process ${process.pid})`);
  });

  test('no Python', async () => {
    const finished = await runCommandLine('local', ['--repo', repository, '--once', ...PORTS], {
      PATH: scratch.directory,
    });
    expect(finished).toMatchObject({ code: 1, stderr: expect.stringContaining('no Python found on PATH') as string });
  });

  test('a cache folder that cannot be written', async () => {
    const finished = await runCommandLine('local', ['--repo', repository, '--once', ...PORTS], {
      XDG_CACHE_HOME: '/dev/null',
    });
    expect(finished.code).toBe(1);
    expect(finished.stderr).toMatch(/^error: cannot write \/dev\/null\//);
    expect(finished.stderr).toContain('XDG_CACHE_HOME');
  });

  test('no network for the set-up', async () => {
    const nowhere = 'http://127.0.0.1:9/simple';
    const finished = await runCommandLine('local', ['--repo', repository, '--once', ...PORTS], {
      XDG_CACHE_HOME: join(scratch.directory, 'empty-cache'),
      PIP_INDEX_URL: nowhere,
      PIP_RETRIES: '0',
      UV_DEFAULT_INDEX: nowhere,
      UV_HTTP_RETRIES: '0',
    });
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain('error: the Python package index could not be reached');
    expect(finished.stderr).toContain('HTTPS_PROXY');
  });

  test('a model that is not there', async () => {
    const finished = await runCommandLine('local', ['--repo', repository, '--models', 'add', ...PORTS]);
    expect(finished).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/has no model "add".*allowed: adds\s+-> did you mean adds\?/) as string,
    });
  });

  test('nothing that can be served here', async () => {
    const finished = await runCommandLine('local', ['--models', 'wav2vec_general_v1', '--once', ...PORTS]);
    expect(finished).toMatchObject({ code: 1, stderr: expect.stringContaining('TensorRT plan') as string });
  });
});

test('a model that cannot be loaded: its name and the reason', async () => {
  const broken = join(scratch.directory, 'broken');
  writeRepository(broken, {
    ...addingModel('adds', { 1: 10 }),
    ...addingModel('breaks', { 1: 1 }),
    'breaks/1/model.py': 'raise RuntimeError("no weights")\n',
  });
  scratch.defer(() => rmSync(localDirectory(broken), { recursive: true, force: true }));
  const finished = await runCommandLine('local', ['--repo', broken, '--once', ...PORTS]);
  expect(finished.code).toBe(1);
  expect(finished.stderr).toMatch(/could not load every model\n\s+breaks version 1: UNAVAILABLE .*no weights/);
});

// UPDATE_DOCS=1 npm test -- --only integration --filter integration/local
if (process.env['UPDATE_DOCS'] === '1') {
  test('the picture in README is made anew', async () => {
    const path = join(scratch.directory, 'page.html');
    expect(await runCommandLine('local', ['--once', '--page', path, ...PORTS])).toMatchObject({ code: 0 });
    const browser = await launchBrowser();
    scratch.defer(() => browser.close());
    const { page } = await openFile(browser, path, { width: 1160, colorScheme: 'light' });
    const models = await page.locator('section[aria-labelledby=models]').boundingBox();
    const height = Math.ceil((models?.y ?? 0) + (models?.height ?? 0)) + 24;
    const picture = await page.screenshot({ fullPage: true, clip: { x: 0, y: 0, width: 1160, height } });
    // As few bytes as do not show.
    const { size } = await sharp(picture)
      .png({ palette: true, colours: 256, effort: 10 })
      .toFile(join(paths.root, 'docs', 'images', 'local.png'));
    expect(size).toBeLessThan(250_000);
  });
}
