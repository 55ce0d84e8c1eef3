import { isLoopback, type Web, type WebAnswer } from './web';

/**
 * Media types of manifests, and the server of Docker Hub:
 * https://docs.docker.com/reference/api/registry/latest/operations/HeadImageManifest.md (2026-11-27)
 */
const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

const DOCKER_HUB = 'registry-1.docker.io';
const NAMES_OF_DOCKER_HUB = ['docker.io', 'index.docker.io'];

/** What a registry answers about an image to a client without an account. */
export type ImageAnswer =
  | { kind: 'found'; digest: string | undefined }
  | { kind: 'missing' }
  /** The registry denies the request, or fails. */
  | { kind: 'unknown'; reason: string };

/**
 * Asks the registry of an image for its manifest, without its content:
 * https://raw.githubusercontent.com/opencontainers/distribution-spec/main/spec.md (2026-11-27), "Pull".
 * @param image `nvcr.io/nvidia/tritonserver:26.11-py3`, or with a digest
 * @throws WebError if the registry cannot be reached
 */
export async function askRegistry(web: Web, image: string): Promise<ImageAnswer> {
  const url = manifestUrl(image);
  const headers = { accept: MANIFESTS.join(', ') };
  let answer = await web.ask(url, { method: 'HEAD', headers });
  if (answer.status === 401) {
    const token = await requestToken(web, answer);
    if (token === undefined) return { kind: 'unknown', reason: denied(url, 401) };
    answer = await web.ask(url, { method: 'HEAD', headers: { ...headers, authorization: `Bearer ${token}` } });
  }
  const { status } = answer;
  if (status === 200) return { kind: 'found', digest: answer.headers['docker-content-digest'] as string | undefined };
  if (status === 404) return { kind: 'missing' };
  if (status === 401 || status === 403) return { kind: 'unknown', reason: denied(url, status) };
  return { kind: 'unknown', reason: `${new URL(url).host} answers HTTP ${status}` };
}

const denied = (url: string, status: number): string =>
  `${new URL(url).host} admits no client without an account (HTTP ${status})`;

/** The address of the manifest of an image. An image without a host, or one of docker.io, is of Docker Hub. */
export function manifestUrl(image: string): string {
  const named = getRegistry(image);
  const host = NAMES_OF_DOCKER_HUB.includes(named) ? DOCKER_HUB : named;
  const [path = '', digest] = (image.startsWith(`${named}/`) ? image.slice(named.length + 1) : image).split('@');
  const [, name = '', tag = 'latest'] = /^([^:]*)(?::(.*))?$/.exec(path) ?? [];
  const repository = host === DOCKER_HUB && !name.includes('/') ? `library/${name}` : name;
  const scheme = isLoopback(host.replace(/:\d+$/, '')) ? 'http' : 'https';
  return `${scheme}://${host}/v2/${repository}/manifests/${digest ?? tag}`;
}

/**
 * Requests the token with which a registry admits everyone: https://distribution.github.io/distribution/spec/auth/token
 * (2026-11-27).
 * @returns undefined if the registry gives none
 */
async function requestToken(web: Web, { headers }: WebAnswer): Promise<string | undefined> {
  const { realm, ...parameters } = parseChallenge(headers['www-authenticate'] ?? '');
  if (realm === undefined || !URL.canParse(realm)) return undefined;
  const url = new URL(realm);
  for (const name of ['service', 'scope']) {
    const value = parameters[name];
    if (value !== undefined) url.searchParams.set(name, value);
  }
  const { status, text } = await web.ask(url.href);
  if (status !== 200) return undefined;
  const { token, access_token: other } = parseObject(text);
  return [token, other].find((one): one is string => typeof one === 'string');
}

/** The parameters of a challenge: `Bearer realm="https://...",service="...",scope="repository:NAME:pull"`. */
export function parseChallenge(header: string): Partial<Record<string, string>> {
  if (!/^bearer /i.test(header)) return {};
  return Object.fromEntries(
    [...header.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name.toLowerCase(), value]),
  );
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return (JSON.parse(text) ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Host of an image: `nvcr.io`. An image without a host is of Docker Hub. */
function getRegistry(image: string): string {
  const [host = ''] = image.split('/');
  return image.includes('/') && /[.:]|^localhost$/.test(host) ? host : 'index.docker.io';
}
