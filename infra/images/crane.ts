import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { CommandError, exec } from '../../src/core/exec';
import { MIRROR_POLICY, type EcrLogin } from './ecr';

/** Name of the credential helper that crane runs for ECR. */
const HELPER = 'triton-serving-ecr';
const PASSWORD = 'TRITON_SERVING_ECR_PASSWORD';

interface Descriptor {
  digest: string;
  size: number;
}

/** An image manifest, or the index of one image for several architectures. */
interface Manifest {
  config?: Descriptor;
  layers?: Descriptor[];
  manifests?: Descriptor[];
}

/** Copies images to ECR with crane. */
export class Crane {
  /** Configuration of crane. The password is only in the environment of crane and of its helper. */
  private readonly folder = mkdtempSync(join(tmpdir(), 'triton-serving-crane-'));
  private readonly env: NodeJS.ProcessEnv;
  private readonly registries: readonly string[];

  constructor(
    private readonly program: string,
    { uris, user, password }: EcrLogin,
  ) {
    this.registries = uris.map(getRegistry);
    const helpers = Object.fromEntries(this.registries.map((registry) => [registry, HELPER]));
    const given = readDockerConfig();
    const config = { ...given, credHelpers: { ...given.credHelpers, ...helpers } };
    writeFileSync(join(this.folder, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    const script = `#!/bin/sh\nprintf '{"Username":"%s","Secret":"%s"}' '${user}' "$${PASSWORD}"\n`;
    writeFileSync(join(this.folder, `docker-credential-${HELPER}`), script, { mode: 0o700 });
    this.env = {
      ...process.env,
      DOCKER_CONFIG: this.folder,
      PATH: [this.folder, process.env['PATH'] ?? ''].join(delimiter),
      [PASSWORD]: password,
    };
  }

  /** Digest of an image or index; undefined if the registry does not have it. */
  async digest(image: string): Promise<string | undefined> {
    try {
      return (await this.run(image, ['digest', image])).trim();
    } catch (error) {
      if (error instanceof RegistryError && error.kind === 'missing') return undefined;
      throw error;
    }
  }

  /** Sizes in bytes of everything that a copy transfers, by digest. */
  async blobs(repository: string, digest: string): Promise<Map<string, number>> {
    const image = `${repository}@${digest}`;
    const { config, layers = [], manifests = [] } = JSON.parse(await this.run(image, ['manifest', image])) as Manifest;
    const own = [...(config === undefined ? [] : [config]), ...layers];
    const sizes = new Map(own.map((blob) => [blob.digest, blob.size]));
    for (const part of manifests) {
      for (const [name, size] of await this.blobs(repository, part.digest)) sizes.set(name, size);
    }
    return sizes;
  }

  /**
   * Copies an image or the whole index, without the parts that the target has.
   * @param onBlob called with the digest of each part that is in the target
   */
  async copy(source: string, target: string, onBlob: (digest: string) => void): Promise<void> {
    await this.run(source, ['copy', source, target], (line) => {
      const digest = /(?:existing|mounted|pushed) blob: (sha256:[0-9a-f]{64})/.exec(line)?.[1];
      if (digest !== undefined) onBlob(digest);
    });
  }

  /** Deletes the configuration. */
  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async run(image: string, args: readonly string[], onStderrLine?: (line: string) => void): Promise<string> {
    try {
      return (await exec(this.program, args, { env: this.env, ...(onStderrLine && { onStderrLine }) })).stdout;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      const lines = error.output.stderr.split('\n');
      const reason = lines.findLast((line) => line.startsWith('Error: '))?.slice('Error: '.length);
      if (reason === undefined) throw error;
      throw explain(image, reason, this.registries, error);
    }
  }
}

/** Host of an image: `nvcr.io`. An image without a host is of Docker Hub. */
export function getRegistry(image: string): string {
  const [host = ''] = image.split('/');
  return image.includes('/') && /[.:]|^localhost$/.test(host) ? host : 'index.docker.io';
}

/** A registry refused a request, or did not answer. */
class RegistryError extends UserError {
  override readonly name = 'RegistryError';
  constructor(
    readonly kind: Kind,
    message: string,
    options: ConstructorParameters<typeof UserError>[1],
  ) {
    super(message, options);
  }
}

type Kind = 'immutable' | 'denied' | 'missing' | 'unreachable';

/** What the errors of registries contain, in the order in which they are tried. */
const PATTERNS: readonly (readonly [Kind, RegExp])[] = [
  // ECR has had both texts.
  ['immutable', /\b(repository|tag) is immutable/],
  ['denied', /: (UNAUTHORIZED|DENIED)\b|status code 40[13]\b|not authorized/],
  ['missing', /: (MANIFEST|NAME)_UNKNOWN\b|status code 404\b/],
];

const AGAIN = 'run the command again, which copies only what is missing';

function explain(image: string, reason: string, ecr: readonly string[], cause: CommandError): RegistryError {
  const isEcr = ecr.some((registry) => reason.includes(`//${registry}/`));
  const kind = PATTERNS.find(([, pattern]) => pattern.test(reason))?.[0] ?? 'unreachable';
  const host = getRegistry(image);
  const hints: Readonly<Record<Kind, string>> = {
    immutable: `another copy set the tag meanwhile: ${AGAIN}`,
    denied: isEcr
      ? `allow it: ${MIRROR_POLICY} has all rights`
      : `sign in: docker login ${host}, or crane auth login ${host}; sign-ins of podman are not read`,
    missing: isEcr ? 'run "pulumi up", and then the command again' : 'check image and agentImage in the stack file',
    unreachable: `check the network, HTTPS_PROXY and SSL_CERT_FILE, and ${AGAIN}`,
  };
  return new RegistryError(kind, `cannot copy ${image}: ${reason}`, { hint: hints[kind], cause });
}

interface DockerConfig {
  credHelpers?: Record<string, string>;
}

/** The registries that the user has signed in to. */
function readDockerConfig(): DockerConfig {
  // Docker and crane take an empty variable for none.
  const given = process.env['DOCKER_CONFIG'] ?? '';
  const folder = given === '' ? join(homedir(), '.docker') : given;
  const file = join(folder, 'config.json');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return {};
  }
  try {
    return JSON.parse(text) as DockerConfig;
  } catch (cause) {
    throw new UserError(`${file} is not valid JSON: ${(cause as Error).message}`, {
      hint: 'correct the file, or set DOCKER_CONFIG to another folder',
      cause,
    });
  }
}
