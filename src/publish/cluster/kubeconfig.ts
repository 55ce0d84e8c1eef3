import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { UserError } from '../../core/errors';

/** Exists in a pod that may access its own cluster. */
const SERVICE_ACCOUNT_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token';

const HINT =
  'create one with "aws eks update-kubeconfig --name CLUSTER" or "pulumi stack output kubeconfig --show-secrets"';

/**
 * Loads the cluster and the credentials to use.
 * @param kubeconfig text (YAML or JSON) or path of a file; if undefined, found as kubectl does: KUBECONFIG,
 *   ~/.kube/config, or inside a cluster the pod's service account
 * @param context default: the kubeconfig's current context
 * @throws UserError if no usable kubeconfig exists; the message never quotes the content, which holds secrets
 */
export function loadKubeconfig(kubeconfig?: string, context?: string): KubeConfig {
  const config = new KubeConfig();
  const origin = read(config, kubeconfig);
  // A kubeconfig may lack a current context, although the library's types require one.
  const name = context ?? (config as { currentContext?: string }).currentContext ?? '';
  const names = config.contexts.map((one) => one.name);
  if (!names.includes(name)) {
    const contexts = names.length === 0 ? 'it has no contexts' : `its contexts are ${names.join(', ')}`;
    throw new UserError(`${origin} has no context "${name}"; ${contexts}`, { hint: `name one of them, or ${HINT}` });
  }
  config.setCurrentContext(name);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined || !URL.canParse(server)) {
    throw new UserError(`${origin}: context "${config.getCurrentContext()}" names no cluster with a server address`, {
      hint: HINT,
    });
  }
  return config;
}

function read(config: KubeConfig, kubeconfig: string | undefined): string {
  if (kubeconfig === undefined) return readDefault(config);
  // Text begins like JSON or has several lines; a path does neither.
  if (kubeconfig.trimStart().startsWith('{') || kubeconfig.trim().includes('\n')) {
    return attempt('the kubeconfig given', () => config.loadFromString(kubeconfig));
  }
  if (!existsSync(kubeconfig)) throw new UserError(`kubeconfig ${resolve(kubeconfig)} does not exist`, { hint: HINT });
  return attempt(kubeconfig, () => config.loadFromFile(kubeconfig));
}

function readDefault(config: KubeConfig): string {
  const listed = (process.env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  const missing = listed.find((path) => !existsSync(path));
  if (missing !== undefined) throw new UserError(`KUBECONFIG names ${missing}, which does not exist`, { hint: HINT });
  const home = join(process.env['HOME'] ?? homedir(), '.kube', 'config');
  if (listed.length === 0 && !existsSync(home) && !existsSync(SERVICE_ACCOUNT_TOKEN)) {
    throw new UserError(`no kubeconfig found: KUBECONFIG is not set, and ${home} does not exist`, { hint: HINT });
  }
  const origin = listed.length > 0 ? listed.join(delimiter) : existsSync(home) ? home : 'the service account';
  // As in kubectl, the first file sets the current context.
  return attempt(origin, () => config.loadFromDefault({}, true));
}

/**
 * Reports only the kind and line of a mistake, because the parser quotes the lines around it, which may hold secrets.
 */
function attempt(origin: string, load: () => void): string {
  try {
    load();
    return origin;
  } catch (error) {
    const { reason, mark } = error as { reason?: string; mark?: { line?: number } };
    const where = mark?.line === undefined ? '' : ` (line ${mark.line + 1}: ${reason})`;
    throw new UserError(`${origin} is not a valid kubeconfig${where}`, { hint: HINT });
  }
}
