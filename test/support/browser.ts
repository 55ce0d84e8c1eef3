import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium, type Browser, type Page } from 'playwright-core';
import { findChromium } from '../../tools/toolchain/chromium';

/** Why no browser is available, for skipped tests; undefined if there is one. */
export function whyNoBrowser(): string | undefined {
  return findChromium() === undefined
    ? 'there is no chromium on PATH, and npm test could not get one (CHROME_PATH names one elsewhere)'
    : undefined;
}

/** Launches a real browser, headless. */
export function launchBrowser(): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(whyNoBrowser());
  return chromium.launch({ executablePath });
}

export interface OpenedPage {
  page: Page;
  /** All console messages, including errors of scripts. */
  said: string[];
  /** URLs that were requested, except the file itself and data URLs. */
  requests: string[];
}

export interface View {
  /** CSS pixels. */
  width: number;
  colorScheme: 'light' | 'dark';
}

/** Opens a file by its file:// URL, as a click on the file does. */
export async function openFile(browser: Browser, path: string, { width, colorScheme }: View): Promise<OpenedPage> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const url = pathToFileURL(path).href;
  const opened: OpenedPage = { page, said: [], requests: [] };
  page.on('console', (message) => opened.said.push(message.text()));
  page.on('pageerror', (error) => opened.said.push(error.message));
  page.on('dialog', (dialog) => {
    opened.said.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== url && !request.url().startsWith('data:')) opened.requests.push(request.url());
  });
  await page.goto(url);
  return opened;
}

/** Texts of the cells in each row of a section's table. */
export async function getRows(page: Page, section: string): Promise<string[][]> {
  const rows = await page.locator(`section[aria-labelledby=${section}] tbody tr`).all();
  return Promise.all(
    rows.map(async (row) => (await row.locator('th, td').allTextContents()).map((text) => text.trim())),
  );
}

export interface DecodedPicture {
  /** Width and height of the picture itself. */
  size: [number, number];
  alt: string;
  /** Red, green, blue and opacity of each pixel. */
  pixels: Buffer;
}

/** All pictures of the page as decoded by the browser. A picture that could not be decoded has size 0. */
export async function decodedPictures(page: Page): Promise<DecodedPicture[]> {
  // As base64, because lists of numbers take the driver half a minute.
  const decoded = await page.evaluate<(Omit<DecodedPicture, 'pixels'> & { base64: string })[]>(`
    [...document.images].map((image) => {
      const size = [image.naturalWidth, image.naturalHeight];
      if (size[0] === 0) return { size, alt: image.alt, base64: '' };
      const context = new OffscreenCanvas(...size).getContext('2d');
      context.drawImage(image, 0, 0);
      const pixels = context.getImageData(0, 0, ...size).data;
      return { size, alt: image.alt, base64: btoa(Array.from(pixels, (value) => String.fromCharCode(value)).join('')) };
    })`);
  return decoded.map(({ size, alt, base64 }) => ({ size, alt, pixels: Buffer.from(base64, 'base64') }));
}

/** Accessibility violations that axe finds, such as contrast, names, headings, tables; one line each. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  // evaluate() instead of a script element, because the page forbids scripts.
  await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>('axe.run()');
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`));
}
