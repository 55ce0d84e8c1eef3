import * as http from 'node:http';
import * as https from 'node:https';
import { Authority } from './authority';
import { startConnectProxy } from './connect-proxy';
import { listenOnLoopback } from './loopback';
import type { Registry } from './registry';
import type { Scratch } from './temp-dir';

export const ECR_HOST = '123456789012.dkr.ecr.us-east-1.amazonaws.com';

/** The right that ECR requires for a request of the registry protocol. */
function getAction(method: string, path: string): string | undefined {
  if (path.includes('/manifests/')) return method === 'PUT' ? 'ecr:PutImage' : 'ecr:BatchGetImage';
  if (path.includes('/blobs/uploads/')) {
    return { POST: 'ecr:InitiateLayerUpload', PATCH: 'ecr:UploadLayerPart', PUT: 'ecr:CompleteLayerUpload' }[method];
  }
  return path.includes('/blobs/') ? 'ecr:BatchCheckLayerAvailability' : undefined;
}

/** ECR in front of a registry: its host name, TLS, passwords, rights and immutable tags. */
export interface Ecr {
  /** Variables with which crane reaches it. */
  env: NodeJS.ProcessEnv;
  /** The rights that requests needed, with their repositories, in order. */
  calls: { action: string; repository: string }[];
  /** Digests of the blobs that were uploaded. */
  uploads: string[];
  /** Rights that the caller lacks. */
  denied: Set<string>;
  /** Number of uploads after which connections break; then uploads work again. */
  breakAfter: number;
  /** Called before an upload completes. */
  beforeUpload: () => Promise<void>;
  /** Tags that another copy sets before this one does. */
  taken: Set<string>;
}

export async function startEcr(scratch: Scratch, registry: Registry, password: string): Promise<Ecr> {
  const authority = new Authority(scratch);
  const ecr: Ecr = {
    env: {},
    calls: [],
    uploads: [],
    denied: new Set(),
    breakAfter: Infinity,
    beforeUpload: () => Promise.resolve(),
    taken: new Set(),
  };
  const login = `Basic ${Buffer.from(`AWS:${password}`).toString('base64')}`;
  const target = new URL(`http://${registry.host}`);
  const refuse = (reply: http.ServerResponse, status: number, code: string, message: string): void => {
    const body = JSON.stringify({ errors: [{ code, message }] });
    reply.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
  const serve = async (request: http.IncomingMessage, reply: http.ServerResponse): Promise<void> => {
    const { method = '', url = '' } = request;
    if (request.headers.authorization !== login) {
      reply.setHeader('www-authenticate', `Basic realm="https://${ECR_HOST}/",service="ecr.amazonaws.com"`);
      refuse(reply, 401, 'UNAUTHORIZED', 'Not Authorized');
      return;
    }
    const action = getAction(method, url);
    const [, repository = '', reference = ''] = /^\/v2\/(.+?)\/(?:manifests|blobs)\/([^?]*)/.exec(url) ?? [];
    if (action !== undefined) ecr.calls.push({ action, repository });
    if (action !== undefined && ecr.denied.has(action)) {
      const who = 'User: arn:aws:iam::123456789012:user/me is not authorized to perform';
      refuse(
        reply,
        403,
        'DENIED',
        `${who}: ${action} on resource: arn:aws:ecr:us-east-1:123456789012:repository/${repository}`,
      );
      return;
    }
    const exists = async (): Promise<boolean> => (await fetch(new URL(url, target), { method: 'HEAD' })).ok;
    if (
      action === 'ecr:PutImage' &&
      (ecr.taken.has(reference) || (!reference.startsWith('sha256:') && (await exists())))
    ) {
      const message = `The image tag '${reference}' already exists in the '${repository}' repository and cannot be overwritten because the tag is immutable.`;
      refuse(reply, 400, 'TAG_INVALID', message);
      return;
    }
    if (action === 'ecr:CompleteLayerUpload') {
      await ecr.beforeUpload();
      if (ecr.uploads.length >= ecr.breakAfter) return void request.socket.destroy();
      ecr.uploads.push(new URL(url, target).searchParams.get('digest') ?? '');
    }
    const headers = { ...request.headers };
    delete headers.authorization;
    const behind = http.request(new URL(url, target), { method, headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(reply);
    });
    behind.on('error', () => reply.destroy());
    request.pipe(behind);
  };
  const front = https.createServer(
    { SNICallback: (host, done) => done(null, authority.contextFor(host)) },
    (request, reply) => {
      serve(request, reply).catch(() => reply.destroy());
    },
  );
  const { port, stop } = await listenOnLoopback(front);
  scratch.defer(stop);
  const proxy = await startConnectProxy(port);
  scratch.defer(proxy.stop);
  ecr.env = { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}`, SSL_CERT_FILE: authority.caFile };
  return ecr;
}
