import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { UserError } from '../core/errors';

/** Present in a pod that may talk to its own cluster. */
const SERVICE_ACCOUNT_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token';

const HINT =
  'write one with "aws eks update-kubeconfig --name CLUSTER" or "pulumi stack output kubeconfig --show-secrets"';

/**
 * The cluster and the credentials to use.
 * @param kubeconfig its text (YAML or JSON), the path of a file, or undefined: then as kubectl does, from KUBECONFIG,
 *   ~/.kube/config, or inside a cluster from the pod's service account
 * @param context undefined for the kubeconfig's own current one
 * @throws UserError when there is none or it cannot be used; what it says is never in the message, as it holds secrets
 */
export function loadKubeconfig(kubeconfig?: string, context?: string): KubeConfig {
  const config = new KubeConfig();
  const origin = read(config, kubeconfig);
  chooseContext(config, origin, context);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined || !URL.canParse(server)) {
    throw new UserError(`${origin}: context "${config.getCurrentContext()}" names no cluster with a server address`, {
      hint: HINT,
    });
  }
  return config;
}

/** @returns what the kubeconfig is called in messages. */
function read(config: KubeConfig, kubeconfig: string | undefined): string {
  if (kubeconfig === undefined) return readDefault(config);
  if (isText(kubeconfig)) {
    attempt('the kubeconfig given', () => config.loadFromString(kubeconfig));
    return 'the kubeconfig given';
  }
  if (!existsSync(kubeconfig)) throw new UserError(`there is no kubeconfig at ${resolve(kubeconfig)}`, { hint: HINT });
  attempt(kubeconfig, () => config.loadFromFile(kubeconfig));
  return kubeconfig;
}

/** A path is one line and does not begin as JSON does. */
function isText(kubeconfig: string): boolean {
  return kubeconfig.trimStart().startsWith('{') || kubeconfig.trim().includes('\n');
}

function readDefault(config: KubeConfig): string {
  const listed = (process.env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  const missing = listed.find((path) => !existsSync(path));
  if (missing !== undefined) throw new UserError(`KUBECONFIG names ${missing}, which is not there`, { hint: HINT });
  const home = join(process.env['HOME'] ?? homedir(), '.kube', 'config');
  if (listed.length === 0 && !existsSync(home) && !existsSync(SERVICE_ACCOUNT_TOKEN)) {
    throw new UserError(`no kubeconfig: KUBECONFIG is not set and ${home} is not there`, { hint: HINT });
  }
  const origin = listed.length > 0 ? listed.join(delimiter) : existsSync(home) ? home : 'the service account';
  // As kubectl does, the first file decides which context is the current one.
  attempt(origin, () => config.loadFromDefault({}, true));
  return origin;
}

/** The parser quotes the lines around a mistake; a kubeconfig's may be secret, so that only the kind of it is told. */
function attempt(origin: string, load: () => void): void {
  try {
    load();
  } catch (error) {
    const { reason, mark } = error as { reason?: string; mark?: { line?: number } };
    const where = mark?.line === undefined ? '' : ` (line ${mark.line + 1}: ${reason})`;
    throw new UserError(`${origin}: not a kubeconfig that can be read${where}`, { hint: HINT });
  }
}

/** A file may lack it, which the library's types do not say. */
function currentContext(config: { currentContext?: string }): string | undefined {
  return config.currentContext;
}

function chooseContext(config: KubeConfig, origin: string, wanted: string | undefined): void {
  const name = wanted ?? currentContext(config);
  const names = config.contexts.map((one) => one.name);
  if (name !== undefined && names.includes(name)) return config.setCurrentContext(name);
  const allowed = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`;
  throw new UserError(
    name === undefined
      ? `${origin} has no current context; ${allowed}`
      : `${origin} has no context "${name}"; ${allowed}`,
    { hint: names.length === 0 ? HINT : 'choose one of them' },
  );
}
