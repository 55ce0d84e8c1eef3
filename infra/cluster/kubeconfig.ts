import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { load } from 'js-yaml';
import { UserError } from '../../src/core/errors';
import { paths } from '../../src/core/paths';

interface Named {
  name: string;
}

interface Kubeconfig {
  'current-context'?: string;
  contexts?: (Named & { context: { cluster: string; user: string } })[];
  clusters?: Named[];
  users?: Named[];
}

const HINT = '"kubectl config get-contexts" lists the contexts of a kubeconfig';

/** Whether a value is the text of a kubeconfig, which contains secrets. Any other value is the path of one. */
export const isKubeconfigText = (value: string): boolean => value.includes('\n') || value.trimStart().startsWith('{');

/**
 * Returns a kubeconfig with one context only, as JSON, because the other contexts of a user's file do not concern the
 * stack.
 * @param kubeconfig text or path (relative to the package, or `~/...`). Default: the first file of KUBECONFIG, or
 * ~/.kube/config
 * @param context default: the current context
 * @throws UserError, whose message contains only names from the kubeconfig, because its other values may be secret
 */
export function readKubeconfig(kubeconfig: string | undefined, context: string | undefined): string {
  const { text, origin } = find(kubeconfig);
  const config = parse(text, origin);
  const name = context ?? config['current-context'];
  const chosen = config.contexts?.find((one) => one.name === name);
  const cluster = config.clusters?.find((one) => one.name === chosen?.context.cluster);
  const user = config.users?.find((one) => one.name === chosen?.context.user);
  if (chosen === undefined || cluster === undefined || user === undefined) {
    const names = config.contexts?.map((one) => one.name).join(', ') ?? '';
    throw new UserError(
      `${origin} has no context ${JSON.stringify(name ?? '')} with its cluster and user; its contexts: ${names}`,
      {
        hint: HINT,
      },
    );
  }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': chosen.name,
    contexts: [chosen],
    clusters: [cluster],
    users: [user],
  });
}

/** The address of the API server in a kubeconfig with one cluster. */
export const getServer = (kubeconfig: string): string | undefined =>
  (JSON.parse(kubeconfig) as { clusters?: { cluster?: { server?: string } }[] }).clusters?.[0]?.cluster?.server;

function find(kubeconfig: string | undefined): { text: string; origin: string } {
  if (kubeconfig !== undefined && isKubeconfigText(kubeconfig)) {
    return { text: kubeconfig, origin: 'kubeconfig' };
  }
  const listed = (process.env['KUBECONFIG'] ?? '').split(delimiter).find((path) => path !== '');
  const file =
    kubeconfig === undefined
      ? (listed ?? join(homedir(), '.kube', 'config'))
      : resolve(paths.project, inHome(kubeconfig));
  if (!existsSync(file)) {
    throw new UserError(`the kubeconfig ${file} does not exist`, {
      hint: 'set existingCluster.kubeconfig to the path or to the text of a kubeconfig',
    });
  }
  return { text: readFileSync(file, 'utf8'), origin: file };
}

/** Expands `~`, which a shell would have done. */
const inHome = (path: string): string => path.replace(/^~(?=\/)/, homedir());

/** Discards the parser's error, because it quotes the text, which may be secret. */
function parse(text: string, origin: string): Kubeconfig {
  try {
    const value = load(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Reported below.
  }
  throw new UserError(`${origin} is not a kubeconfig`, {
    hint: 'a kubeconfig is YAML or JSON with contexts, clusters and users',
  });
}
