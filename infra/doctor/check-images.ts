import { UserError } from '../../src/core/errors';
import { getRelease, getVulnerabilities, TRITON_RELEASES } from '../../src/model/triton-releases';
import type { Aws } from './aws';
import { error, ok, warning, type Check, type Finding } from './doctor';
import { isLoopback, type WebAnswer } from './web';

/** The images in the registries that pods pull from. The nodes may reach another registry than this machine. */
export const imagesCheck: Check = {
  name: 'images',
  run: async ({ settings, aws }) => {
    const { image, agent } = settings.triton;
    const found = [judgeImage(aws, 'image', image), judgeImage(aws, 'agent.image', agent.image)];
    return [...(await Promise.all(found)), ...judgeRelease(image)];
  },
};

/** The settings accept each of the vulnerabilities: otherwise they are refused, as in a preview. */
function judgeRelease(image: string): Finding[] {
  const release = getRelease(image);
  if (release === undefined) return [ok(`${image} names no release of Triton, so its vulnerabilities are unknown`)];
  const version = TRITON_RELEASES[release];
  const name = `Triton release ${release}${version === undefined ? '' : ` (${version})`}`;
  const faults = getVulnerabilities(release).map(({ id, cvss, kind, fixedIn, advisory }) =>
    warning(
      `${name} has ${id} (${kind}, CVSS ${cvss}), which acceptedVulnerabilities accepts`,
      `read ${advisory}, and set image to ${fixedIn} or newer`,
    ),
  );
  return faults.length > 0 ? faults : [ok(`${name} has no known critical vulnerability`)];
}

async function judgeImage(aws: Aws, setting: string, image: string): Promise<Finding> {
  const unchecked = (reason: string): Finding =>
    warning(
      `${image} is not checked: ${reason}`,
      `check that the nodes may pull it; with an account: docker manifest inspect ${image}`,
    );
  try {
    const url = manifestUrl(image);
    const { status, headers } = await askRegistry(aws, url);
    const { host } = new URL(url);
    if (status === 200) return ok(`${image} exists, with the digest ${headers['docker-content-digest']}`);
    if (status === 404) {
      return error(`${image} does not exist, so nodes cannot pull it`, `correct ${setting} in the stack file`);
    }
    const isDenied = status === 401 || status === 403;
    return unchecked(`${host} ${isDenied ? 'admits no client without an account:' : 'answers'} HTTP ${status}`);
  } catch (cause) {
    if (!(cause instanceof UserError)) throw cause;
    return unchecked(cause.message);
  }
}

/** https://docs.docker.com/reference/api/registry/latest/operations/HeadImageManifest.md (2026-11-27) */
const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

/**
 * Asks a registry for a manifest, without its content, as a client without an account:
 * https://raw.githubusercontent.com/opencontainers/distribution-spec/main/spec.md (2026-11-27), "Pull".
 */
async function askRegistry(aws: Aws, url: string): Promise<WebAnswer> {
  const headers = { accept: MANIFESTS.join(', ') };
  const answer = await aws.askServer(url, { method: 'HEAD', headers });
  const token = answer.status === 401 ? await requestToken(aws, answer) : undefined;
  if (token === undefined) return answer;
  return aws.askServer(url, { method: 'HEAD', headers: { ...headers, authorization: `Bearer ${token}` } });
}

/** The address of the manifest of an image. An image without a host, or one of docker.io, is of Docker Hub. */
export function manifestUrl(image: string): string {
  const [, named, rest = image] = /^((?:[^/]*[.:][^/]*|localhost))\/(.*)$/.exec(image) ?? [];
  const host = named === undefined || /^(index\.)?docker\.io$/.test(named) ? 'registry-1.docker.io' : named;
  const [path = '', digest] = rest.split('@');
  const [, name = '', tag = 'latest'] = /^([^:]*)(?::(.*))?$/.exec(path) ?? [];
  const repository = host === 'registry-1.docker.io' && !name.includes('/') ? `library/${name}` : name;
  const scheme = isLoopback(host.replace(/:\d+$/, '')) ? 'http' : 'https';
  return `${scheme}://${host}/v2/${repository}/manifests/${digest ?? tag}`;
}

/**
 * Requests the token with which a registry admits everyone: https://distribution.github.io/distribution/spec/auth/token
 * (2026-11-27).
 * @returns undefined if the registry gives none
 */
async function requestToken(aws: Aws, { headers }: WebAnswer): Promise<string | undefined> {
  // Bearer realm="https://...",service="...",scope="repository:NAME:pull"
  const challenge = headers['www-authenticate'] ?? '';
  const { realm, ...parameters } = Object.fromEntries(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name.toLowerCase(), value]),
  ) as Partial<Record<string, string>>;
  if (!/^bearer /i.test(challenge) || realm === undefined || !URL.canParse(realm)) return undefined;
  const url = new URL(realm);
  for (const name of ['service', 'scope']) {
    const value = parameters[name];
    if (value !== undefined) url.searchParams.set(name, value);
  }
  const { status, text } = await aws.askServer(url.href);
  // Some registries give access_token instead.
  const [, token] = /"(?:access_)?token"\s*:\s*"([^"]+)"/.exec(text) ?? [];
  return status === 200 ? token : undefined;
}
