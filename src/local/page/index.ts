import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatDuration } from '../../core/format';
import { paths } from '../../core/paths';
import { encodePng } from '../../model/media/image';
import { displayPath } from '../../model/paths';
import type { Exhibit } from '../sample-requests';
import { nextCommands } from '../hints';
import type { LocalResult, ModelRow } from '../report';
import { html, Html } from './html';

/** The content of the page for one run of `npm run local`. */
export interface LocalPage {
  result: LocalResult;
  /** Folder of the models. */
  repository: string;
  /** Whether the servers stop at the end of the run. */
  once: boolean;
  made: Date;
}

/** Writes the page atomically, so that a browser never reads an incomplete page. */
export async function writePage(path: string, page: LocalPage): Promise<void> {
  const text = await renderPage(page);
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

/** Renders one self-contained HTML document: no script, no other file, no network. */
export async function renderPage({ result, repository, once, made }: LocalPage): Promise<string> {
  const { models, answers } = result;
  const ready = uniqueNames(models.filter(({ state }) => state === 'READY'));
  // Our own file is inserted unescaped, because browsers hash the text between the tags.
  const style = readFileSync(join(paths.source, 'local', 'page', 'page.css'), 'utf8');
  const hash = createHash('sha256').update(style).digest('base64');
  const policy = `default-src 'none'; img-src data:; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
  const exhibits: Html[] = [];
  for (const { model, exhibit } of answers) {
    if (exhibit !== undefined) exhibits.push(await showExhibit(model, exhibit, models));
  }
  const document = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${policy}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${ready.length} models on Triton</title>
        <link rel="icon" href="data:," />
        ${new Html(`<style>${style}</style>`)}
      </head>
      <body>
        <header>
          <div>
            <h1>Models on this machine</h1>
            <p>
              <code>${displayPath(repository)}</code> on a real Triton and a real S3,
              ${made.toISOString().slice(0, 16).replace('T', ' ')} UTC. ${ready.length} of ${uniqueNames(models).length}
              models are READY${getDelay(result)}.
            </p>
          </div>
          ${verdict(result)}
        </header>
        <main>
          <div class="exhibits">${exhibits}</div>
          <div class="card table" tabindex="0" role="region" aria-label="Models">
            <table>
              <thead>
                <tr>
                  ${COLUMNS.map((column) => html`<th scope="col">${column}</th>`)}
                </tr>
              </thead>
              <tbody>
                ${models.map((row) => tableRow(row, result))}
              </tbody>
            </table>
          </div>
          <h2>Try it</h2>
          <p>
            ${once ? 'The servers have stopped. Start them again with "npm run local", then run' : 'Run'} in another
            terminal:
          </p>
          <ul class="card commands">
            ${nextCommands(ready, repository).map((command) => html`<li><code>${command}</code></li>`)}
          </ul>
        </main>
      </body>
    </html> `;
  return document.text;
}

const uniqueNames = (models: readonly ModelRow[]): string[] => [...new Set(models.map(({ model }) => model))];

const getDelay = ({ firstAnswerMs }: LocalResult): string =>
  firstAnswerMs === undefined ? '' : `; the first one answered ${formatDuration(firstAnswerMs)} after the start`;

function verdict({ models, answers }: LocalResult): Html {
  const failed = new Set([
    ...models.filter(({ state }) => state === 'FAILED').map(({ model }) => model),
    ...answers.filter(({ error }) => error !== undefined).map(({ model }) => model),
  ]);
  const coming = uniqueNames(models.filter(({ state }) => getKind(state) === 'coming'));
  if (failed.size > 0) return html`<p class="badge bad">No correct answer from ${[...failed].join(', ')}</p>`;
  if (coming.length > 0) return html`<p class="badge coming">Still coming: ${coming.join(', ')}</p>`;
  return html`<p class="badge good">Every served model answered</p>`;
}

/** Style of a state: a model that is neither READY nor FAILED may be on the way to it. */
function getKind(state: string): 'good' | 'bad' | 'none' | 'coming' {
  if (state === 'READY') return 'good';
  if (state === 'FAILED') return 'bad';
  return state === 'not served here' ? 'none' : 'coming';
}

async function showExhibit(model: string, exhibit: Exhibit, models: readonly ModelRow[]): Promise<Html> {
  const steps = models.find((row) => row.model === model)?.composedOf ?? [];
  const isOwn = (row: ModelRow): boolean => row.model === model || steps.includes(row.model);
  const pictures: Html[] = [];
  for (const { caption, image } of exhibit.pictures) {
    const source = `data:image/png;base64,${(await encodePng(image)).toString('base64')}`;
    const picture = html`<img src="${source}" width="${image.width}" height="${image.height}" alt="${caption}" />`;
    pictures.push(
      html`<figure>
        ${picture}
        <figcaption>${caption}</figcaption>
      </figure>`,
    );
  }
  const values = exhibit.values.map(
    ({ text, share, shown }) =>
      html`<li>${text} <span>${shown}</span><progress value="${share}" aria-hidden="true"></progress></li> `,
  );
  const isRandom = models.some((row) => isOwn(row) && hasRandomWeights(row.weights));
  return html`<article class="card" data-exhibit="${model}">
    <h2>${exhibit.title} <code>${model}</code></h2>
    <div class="pictures">${pictures}</div>
    <ul class="values">
      ${values}
    </ul>
    ${
      isRandom
        ? html`<p class="note">
            <strong>Random weights.</strong> The answer shows that everything works, not how good the model is. Pass
            real weights with <code>--weights</code>.
          </p>`
        : undefined
    }
  </article> `;
}

const COLUMNS = ['Model', 'Platform', 'Version', 'State', 'Answer', 'Time', 'Weights'];

function tableRow(row: ModelRow, { answers }: LocalResult): Html {
  const { model, platform, version, state, reason, isQuick, weights, composedOf } = row;
  const answer = answers.find((one) => one.model === model);
  const source = composedOf.length > 0 ? `those of ${composedOf.join(', ')}` : weights;
  return html`<tr data-name="${model}">
    <th scope="row"><code>${model}</code></th>
    <td>${platform}</td>
    <td>${version}</td>
    <td>
      <span class="badge ${getKind(state)}">${state}</span>
      <span class="reason">${reason}${isQuick ? ' checked quickly' : ''}</span>
    </td>
    <td>${answer?.result} <span class="bad">${answer?.error}</span></td>
    <td>${answer === undefined ? undefined : formatDuration(answer.milliseconds)}</td>
    <td>${source}</td>
  </tr> `;
}

/** The trace record of this package's random weights starts with these words. */
export const hasRandomWeights = (weights: string): boolean => weights.startsWith('seeded random weights');
