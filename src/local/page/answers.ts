import { formatDuration } from '../../core/format';
import type { DisplayedResult } from '../displayed-results';
import type { LocalResult, ModelRow } from '../report';
import type { SmokeTestResult } from '../smoke-test';
import { html, type Html } from './html';
import { bar, isRandom, section } from './html-components';
import { pictureTag } from './pictures';

/** The section with answers; undefined if no model has an exhibit. */
export async function answersSection({ models, answers }: LocalResult): Promise<Html | undefined> {
  const cards: Html[] = [];
  const order = Object.keys(TITLES);
  const shown = answers
    .filter(({ display }) => display !== undefined)
    .sort((a, b) => order.indexOf(a.display?.kind ?? '') - order.indexOf(b.display?.kind ?? ''));
  for (const answer of shown) {
    if (answer.display === undefined) continue;
    const row = models.find(({ model }) => model === answer.model);
    const times = answers.filter(({ model, error }) => model === answer.model && error === undefined);
    cards.push(card(answer.display.kind, answer.model, times, await display(answer.display, row, models)));
  }
  if (cards.length === 0) return undefined;
  return section('answers', 'Answers of the models', html`<div class="exhibits">${cards}</div>`);
}

const TITLES: Record<DisplayedResult['kind'], string> = {
  restoration: 'Face restoration',
  classes: 'Image classification',
  texts: 'Sentence similarity',
};

function card(kind: DisplayedResult['kind'], model: string, answers: readonly SmokeTestResult[], body: Html): Html {
  const times = answers.map(({ protocol, milliseconds }) => `${protocol} ${formatDuration(milliseconds)}`);
  return html`<article class="card ${kind}" data-exhibit="${model}">
    <header>
      <h3>${TITLES[kind]}</h3>
      <p><code>${model}</code> <small>${times.join(' · ')}</small></p>
    </header>
    ${body}
  </article> `;
}

function display(shown: DisplayedResult, row: ModelRow | undefined, models: readonly ModelRow[]): Promise<Html> | Html {
  const weights = getWeights(row, models);
  switch (shown.kind) {
    case 'restoration':
      return restoration(shown, row?.composedOf ?? [], weights);
    case 'classes':
      return classification(shown, weights);
    case 'texts':
      return similarity(shown, weights);
  }
}

/** Weights of the model, or of the models that an ensemble consists of. */
function getWeights(row: ModelRow | undefined, models: readonly ModelRow[]): string[] {
  const names = row === undefined || row.composedOf.length === 0 ? [row?.model] : row.composedOf;
  return models.filter(({ model, weights }) => names.includes(model) && weights !== '').map(({ weights }) => weights);
}

async function restoration(
  { before, after }: Extract<DisplayedResult, { kind: 'restoration' }>,
  steps: readonly string[],
  weights: readonly string[],
): Promise<Html> {
  const random = weights.some(isRandom);
  const sent = await pictureTag(before, 'Photograph of a face: the input');
  const alt = random
    ? 'The answer: the face as a network with random weights renders it'
    : 'The answer: the restored face';
  const answered = await pictureTag(after, alt);
  return html`<div class="pictures">
      <figure>
        ${sent}
        <figcaption>Input: a photograph in the public domain</figcaption>
      </figure>
      <figure>
        ${answered}
        <figcaption>${random ? 'Answer with random weights' : 'Answer: the restored face'}</figcaption>
      </figure>
    </div>
    ${steps.length === 0 ? undefined : pipeline(steps)}
    ${
      random
        ? html`<p class="note">
            <strong>Random weights.</strong> The weights of the network are random numbers from a fixed seed. The
            picture shows that the whole pipeline works, not how well GFPGAN restores faces. Pass real weights with
            <code>--weights</code>.
          </p>`
        : undefined
    }`;
}

function pipeline(steps: readonly string[]): Html {
  return html`<ol class="pipeline" aria-label="Steps of the ensemble">
    ${steps.map((step) => html`<li><code>${step}</code></li> `)}
  </ol>`;
}

async function classification(
  { picture, classes }: Extract<DisplayedResult, { kind: 'classes' }>,
  weights: readonly string[],
): Promise<Html> {
  const rows = classes.map(
    ({ label, probability }) =>
      html`<li><span>${label}</span><span>${(probability * 100).toFixed(1)} %</span>${bar(probability)}</li> `,
  );
  const tag = await pictureTag(picture, 'The part of the photograph that was classified');
  return html`<div class="classified">
      ${tag}
      <ol class="values">
        ${rows}
      </ol>
    </div>
    ${
      weights.some(isRandom)
        ? html`<p class="note"><strong>Random weights.</strong> The labels mean nothing without real weights.</p>`
        : undefined
    }`;
}

function similarity(
  { texts, similarities }: Extract<DisplayedResult, { kind: 'texts' }>,
  weights: readonly string[],
): Html {
  const [first = '', ...others] = texts;
  const rows = others.map((text, i) => {
    const value = similarities[i] ?? NaN;
    return html`<li><span>“${text}”</span><span>${value.toFixed(3)}</span>${bar(value)}</li> `;
  });
  const random = weights.some(isRandom);
  return html`<p class="text">Similarity of “${first}” to</p>
    <ul class="values">
      ${rows}
    </ul>
    <p class="note quiet">
      Cosine similarity of the embeddings; 1 means equal.
      ${random ? html`<strong>Random weights:</strong> the values mean nothing.` : html`Weights: ${weights.join(', ')}.`}
    </p>`;
}
