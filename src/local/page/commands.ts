import { homedir } from 'node:os';
import { relative, sep } from 'node:path';
import { shellWord } from '../../core/format';
import { askCommands, localFlags, STANDARD_HTTP } from '../hints';
import type { LocalResult } from '../report';
import type { LocalPage } from './index';
import { html, type Html } from './html';
import { section } from './html-components';

/** Addresses of `npm run local` without flags. */
const STANDARD = { http: STANDARD_HTTP, metrics: 'http://127.0.0.1:8002/metrics' };

/** Endpoints, and commands to paste. */
export function commandsSection({ result, repository, once }: LocalPage): Html {
  const { models, endpoints } = result;
  const { http, metrics } = once ? STANDARD : endpoints;
  const served = [...new Set(models.filter(({ version }) => version !== '').map(({ model }) => model))];
  const commands: [string, string][] = [
    ...[...askCommands(served, repository)].map(([model, command]): [string, string] => [
      `Send a request to ${model}`,
      command,
    ]),
    ['State of every model', `npm run status -- ${localFlags(repository)}`],
    ...served
      .slice(0, 1)
      .map((model): [string, string] => [
        `Inputs and outputs of ${model}`,
        `curl -s ${shellWord(`${http}/v2/models/${encodeURIComponent(model)}`)}`,
      ]),
    ['Number of requests so far', `curl -s ${metrics} | grep nv_inference_request_success`],
  ];
  const ended = html`<p>
    This run ended after one request to each model (<code>--once</code>). Start the servers with
    <code>npm run local</code>, then use these commands:
  </p>`;
  const list = commands.map(
    ([what, command]) =>
      html`<div>
        <dt>${what}</dt>
        <dd><code>${command}</code></dd>
      </div> `,
  );
  const body = html`${once ? ended : undefined}
    <dl class="card commands">${list}</dl>
    ${once ? undefined : addresses(endpoints)}`;
  return section('commands', 'Try it', body);
}

function addresses({ http, grpc, metrics, s3, repository, tritonLog }: LocalResult['endpoints']): Html {
  const rows = [
    ['Triton HTTP', http],
    ['Triton gRPC', grpc],
    ['Triton metrics', metrics],
    ['S3', `${s3}, ${repository}`],
    ['Triton log', shortPath(tritonLog)],
  ];
  return html`<h3>Endpoints</h3>
    <dl class="card addresses">
      ${rows.map(
        ([what, address]) =>
          html`<div>
            <dt>${what}</dt>
            <dd><code>${address}</code></dd>
          </div> `,
      )}
    </dl>`;
}

/** Shortens a path: relative to the working directory or to the home folder. */
export function shortPath(path: string): string {
  const inside = (folder: string): boolean => path.startsWith(folder + sep);
  if (inside(process.cwd())) return relative(process.cwd(), path);
  return inside(homedir()) ? `~${path.slice(homedir().length)}` : path;
}
