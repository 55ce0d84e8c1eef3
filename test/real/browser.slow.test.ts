import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium } from 'playwright-core';
import sharp from 'sharp';
import { paths } from '../../src/core/paths';
import { describeUnless } from '../support/describe-unless';
import { getAddress, LocalCommand, untilUp, pictureModels } from '../support/local-command';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { findChromium } from '../../tools/toolchain/chromium';

/** Why no browser is available, for skipped tests; undefined if there is one. */
function whyNoBrowser(): string | undefined {
  return findChromium() === undefined
    ? 'there is no chromium on PATH, and npm test could not get one (CHROME_PATH names one elsewhere)'
    : undefined;
}

/** Launches a real browser, headless. */
function launchBrowser(): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(whyNoBrowser());
  return chromium.launch({ executablePath });
}

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
afterAll(() => scratch.clean());

describeUnless(whyNoBrowser(), 'a real browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());

  test('the page of npm run local shows pictures and answers, fits a phone, is accessible and sends no requests', async () => {
    writeRepository(command.repository, pictureModels());
    const { stdout } = await command.run(['--once', '--json']);
    const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    const events: string[] = [];
    page.on('console', (message) => events.push(message.text()));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) events.push(request.url());
    });
    await page.goto(pathToFileURL((JSON.parse(stdout) as { page: string }).page).href);
    const cells = page.locator('tr[data-name=resnet] :is(th, td)');
    expect((await cells.allInnerTexts()).slice(0, 5)).toEqual([
      'resnet',
      'python',
      '1',
      'READY',
      'highest "b <b>" (100.0 %)',
    ]);
    const classes = await page.locator('[data-exhibit=resnet] li').allInnerTexts();
    expect(classes.map((text) => text.replace('\n', ' '))).toEqual(['b <b> 100.0 %', 'a 0.0 %', 'c 0.0 %']);
    expect(await page.evaluate('[...document.images].map(({ naturalWidth }) => naturalWidth)')).toEqual([
      256, 256, 224,
    ]);
    for (const width of [1200, 360]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    }
    // evaluate() instead of a script element, because the page forbids scripts.
    await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
    const { violations } = await page.evaluate<{ violations: { id: string; nodes: object[] }[] }>('axe.run()');
    expect(violations.map(({ id, nodes }) => [id, nodes])).toEqual([]);
    expect(events).toEqual([]);
  });

  test('a page of another origin cannot load a model into Triton of npm run local', async () => {
    const local = command.start('--models', 'adds');
    await untilUp(local);
    const site = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<title>evil</title>'));
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    scratch.defer(() => void site.close());
    const page = await browser.newPage();
    const statuses: number[] = [];
    page.on('response', (response) => {
      if (response.url().endsWith('/load')) statuses.push(response.status());
    });
    await page.goto(`http://localhost:${(site.address() as AddressInfo).port}`);
    const load = `${getAddress(local, 'Triton HTTP')}/v2/repository/models/adds/load`;
    await page.evaluate(`fetch('${load}', { method: 'POST', mode: 'no-cors', body: '{}' })`);
    await until('the browser has its answer', () => statuses.length > 0);
    expect(statuses).toEqual([403]);
    local.child.kill('SIGINT');
    await local.ended;
  });

  // UPDATE_DOCS=1 npm test -- --only real --filter real/browser
  if (process.env['UPDATE_DOCS'] === '1') {
    test('updates the picture in README', async () => {
      const { stdout } = await command.run(['--repo', paths.modelRepository, '--once', '--json']);
      const page = await browser.newPage({ viewport: { width: 1160, height: 900 } });
      await page.goto(pathToFileURL((JSON.parse(stdout) as { page: string }).page).href);
      const picture = await page.screenshot({ fullPage: true });
      const file = join(paths.root, 'docs', 'images', 'local.png');
      const { size } = await sharp(picture).png({ palette: true, colours: 256, effort: 10 }).toFile(file);
      expect(size).toBeLessThan(250_000);
    });
  }
});
