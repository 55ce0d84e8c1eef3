import type { LocalResult, ModelRow } from '../report';
import type { SmokeTestResult } from '../smoke-test';
import { html, type Html } from './html';
import { duration, isRandom, section, table, type TableCell } from './html-components';

/** The section with the served models, and the reasons why others are not served. */
export function modelsSection({ models }: LocalResult): Html {
  const rows = models.map((row) => ({
    name: row.model,
    heading: html`<code>${row.model}</code>`,
    cells: [html`${row.platform}`, html`${row.version === '' ? '-' : row.version}`, ...fate(row)],
  }));
  const headings = ['Model', 'Platform', 'Version', 'State', 'Weights'];
  return section('models', 'Models', table(headings, rows));
}

/** Cells under State and Weights. */
function fate(row: ModelRow): TableCell[] {
  const { state, reason, isQuick } = row;
  const kind = state === 'READY' ? 'good' : state === 'FAILED' ? 'bad' : 'none';
  const badge = html`<span class="badge ${kind}">${state}</span>`;
  if (reason !== '') return [{ content: html`${badge} <span class="reason">${reason}</span>`, columns: 2 }];
  const cell = isQuick ? html`${badge} <span class="reason">checked quickly</span>` : badge;
  return [cell, html`<span class="weights">${getWeights(row)}</span>`];
}

function getWeights({ weights, composedOf }: ModelRow): Html {
  if (composedOf.length > 0) return html`weights of ${composedOf.join(', ')}`;
  return isRandom(weights) ? html`<em>${weights}</em>` : html`${weights === '' ? 'unknown' : weights}`;
}

/** The section with each model's answers over HTTP and gRPC. */
export function requestsSection({ answers }: LocalResult): Html {
  const longest = Math.max(1, ...answers.map(({ milliseconds }) => milliseconds));
  const names = [...new Set(answers.map(({ model }) => model))];
  const rows = names.map((name) => {
    const [http, grpc] = (['HTTP', 'gRPC'] as const).map((protocol) =>
      answers.find((answer) => answer.model === name && answer.protocol === protocol),
    );
    const times = [http, grpc].map((answer) => duration(getTime(answer), longest));
    return { name, heading: html`<code>${name}</code>`, cells: [outcome(http, grpc), ...times] };
  });
  const body = table(['Model', 'Answer', 'Over HTTP', 'Over gRPC'], rows);
  return section('requests', 'One request per model', body);
}

/** The answer over HTTP, which the answer over gRPC was compared with. */
function outcome(http: SmokeTestResult | undefined, grpc: SmokeTestResult | undefined): Html {
  const failures = [http, grpc].flatMap((answer) =>
    answer?.error === undefined
      ? []
      : [html`<p class="failure"><strong>${answer.protocol} failed:</strong> ${answer.error}</p>`],
  );
  if (failures.length === 0) return html`${http?.result}`;
  return html`${http?.result}${failures}`;
}

function getTime(answer: SmokeTestResult | undefined): number | null {
  return answer === undefined || answer.error !== undefined ? null : answer.milliseconds;
}
