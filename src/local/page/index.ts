import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { UserError } from '../../core/errors';
import { formatDuration } from '../../core/format';
import { paths } from '../../core/paths';
import type { LocalResult, ModelRow } from '../report';
import { answersSection } from './answers';
import { commandsSection, shortPath } from './commands';
import { html, Html } from './html';
import { modelsSection, requestsSection } from './models';

/** The content of the page for one run of `npm run local`. */
export interface LocalPage {
  result: LocalResult;
  /** Folder of the models. */
  repository: string;
  /** Whether the servers stop at the end of the run. */
  once: boolean;
  made: Date;
}

/** Ordered, because later rules override earlier ones. */
const STYLES = ['page.css', 'answers.css', 'tables.css', 'narrow.css'];

/**
 * Checks the path of the page before anything is started.
 * @throws UserError if its folder is missing, or the path is a folder
 */
export function requirePageFolder(path: string): void {
  const isDirectory = (of: string): boolean => statSync(of, { throwIfNoEntry: false })?.isDirectory() === true;
  const hint = 'name a file in an existing folder';
  if (!isDirectory(dirname(path))) throw new UserError(`--page ${path}: ${dirname(path)} is not a folder`, { hint });
  if (isDirectory(path)) throw new UserError(`--page ${path}: the path is a folder`, { hint });
}

/**
 * Writes the page atomically, so that a browser never reads an incomplete page.
 * @throws UserError if the page cannot be written
 */
export async function writePage(path: string, page: LocalPage): Promise<void> {
  const text = await renderPage(page);
  const half = `${path}.${process.pid}.new`;
  try {
    writeFileSync(half, text);
    renameSync(half, path);
  } catch (error) {
    rmSync(half, { force: true });
    throw new UserError(`cannot write the page ${path}: ${(error as Error).message}`, {
      hint: 'choose another path with --page FILE',
      cause: error,
    });
  }
}

/** Renders one self-contained HTML document: no script, no other file, no network. */
export async function renderPage(page: LocalPage): Promise<string> {
  const { result } = page;
  // Our own files are inserted unescaped, because browsers hash the text between the tags.
  const folder = join(paths.source, 'local', 'page');
  const style = STYLES.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n');
  const hash = createHash('sha256').update(style).digest('base64');
  const { served } = counts(result);
  const document = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta
          http-equiv="Content-Security-Policy"
          content="default-src 'none'; img-src data:; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'"
        />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${served} models on Triton</title>
        <link rel="icon" href="data:," />
        ${new Html(`<style>${style}</style>`)}
      </head>
      <body>
        <header class="top">${heading(page)}</header>
        <main>
          ${figures(result)} ${await answersSection(result)} ${modelsSection(result)} ${requestsSection(result)}
          ${commandsSection(page)}
        </main>
        <footer>Written by <code>npm run local</code>. This file needs no network and runs no script.</footer>
      </body>
    </html> `;
  return document.text;
}

function heading({ result, repository, made }: LocalPage): Html {
  const unserved = result.models.filter(({ state }) => state === 'FAILED').map(({ model }) => model);
  const unanswered = result.answers.filter(({ error }) => error !== undefined).map(({ model }) => model);
  const failed = [...new Set([...unserved, ...unanswered])];
  const coming = [...new Set(result.models.filter(isComing).map(({ model }) => model))];
  const verdict =
    failed.length === 0 && coming.length > 0
      ? html`<p class="verdict">Still coming: ${coming.join(', ')}</p>`
      : failed.length === 0
        ? html`<p class="verdict good">Every served model answered</p>`
        : html`<p class="verdict bad">No correct answer from ${failed.join(', ')}</p>`;
  return html`<div>
      <p class="project">triton-serving</p>
      <h1>Models on this machine</h1>
      <p class="about">
        <code>${shortPath(repository)}</code> on a real Triton and a real S3,
        <time datetime="${made.toISOString()}">${made.toISOString().slice(0, 16).replace('T', ' ')} UTC</time>
      </p>
    </div>
    ${verdict}`;
}

/** Whether the model has neither answered nor failed. */
const isComing = ({ state }: ModelRow): boolean => !['READY', 'FAILED', 'not served here'].includes(state);

function counts({ models, answers }: LocalResult): { served: number; all: number; answered: number } {
  const names = (of: LocalResult['models']): number => new Set(of.map(({ model }) => model)).size;
  return {
    served: names(models.filter(({ state }) => state === 'READY')),
    all: names(models),
    answered: answers.filter(({ error }) => error === undefined).length,
  };
}

function figures(result: LocalResult): Html {
  const { served, all, answered } = counts(result);
  const tiles: [string, string][] = [
    [`${served} of ${all}`, 'models READY'],
    [`${answered} of ${result.answers.length}`, 'requests answered'],
    ...(result.firstAnswerMs === undefined
      ? []
      : [[formatDuration(result.firstAnswerMs), 'from the start to the first answer'] as [string, string]]),
    [formatDuration(result.milliseconds), 'from the start to this page'],
  ];
  return html`<dl class="figures">
    ${tiles.map(
      ([value, what]) =>
        html`<div class="card">
          <dt>${what}</dt>
          <dd>${value}</dd>
        </div> `,
    )}
  </dl>`;
}
