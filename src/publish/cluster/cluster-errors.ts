import { UserError } from '../../core/errors';

const PERMISSIONS = 'verb "list" on "pods", verbs "get" and "create" on "pods/portforward"';

const SIGN_IN = 'sign in again (AWS: "aws sso login"), or create the kubeconfig again';

/** EKS answers 401 also to a valid sign-in of a role that the cluster does not admit. */
const NO_ENTRY =
  'If you are signed in, your role may have no access entry: "aws eks list-access-entries --cluster-name NAME" lists the roles that the cluster admits, and the setting clusterAdmins of the stack adds one';

const CHECK =
  'check the network (VPN, private endpoint), and that the kubeconfig and its context belong to this cluster: if its certificate is not trusted, create the kubeconfig again';

export interface ClusterCall {
  /** The operation: `list pods in namespace serving`. */
  what: string;
  server: string;
  context: string;
  namespace: string;
  /** What the user must be permitted to do. Default: what publishing needs. */
  permissions?: string;
}

interface Failure extends Error {
  /** HTTP status of the API server's answer, or the system's error code. */
  code?: number | string;
  /** JSON of a Kubernetes Status. */
  body?: unknown;
  syscall?: string;
  path?: string;
}

export function explainCluster(
  { what, server, context, namespace, permissions = PERMISSIONS }: ClusterCall,
  cause: unknown,
): UserError {
  if (cause instanceof UserError) return cause;
  const { code, message, body, syscall, path } = cause as Failure;
  const explain = (text: string, hint?: string): UserError => new UserError(`cannot ${what}${text}`, { hint, cause });
  if (typeof code === 'number') {
    const status = statusMessage(body);
    const detail = `HTTP ${code}${status === '' ? '' : `: ${status}`}`;
    if (code === 401) {
      const hint = /\.eks\.amazonaws\.com/.test(server) ? `${SIGN_IN}. ${NO_ENTRY}` : SIGN_IN;
      return explain(`: ${server} rejects the credentials of context "${context}" (${detail})`, hint);
    }
    if (code !== 403) return explain(` at ${server} (${detail})`);
    const grant = `grant the user of context "${context}" a Role in namespace ${namespace}: ${permissions}`;
    return explain(`: not permitted (${detail})`, grant);
  }
  if (syscall?.startsWith('spawn') === true) {
    const text = `: the kubeconfig signs in with "${path}", which failed to start (${code})`;
    return explain(text, `install "${path}", or add its folder to PATH`);
  }
  const reason = [code, message].filter((part) => part !== undefined && part !== '').join(': ');
  return explain(` at ${server}: ${reason}`, CHECK);
}

/** The message in a Status object, the form of the API server's errors. */
function statusMessage(body: unknown): string {
  try {
    const status = (typeof body === 'string' ? JSON.parse(body) : body) as { message?: unknown } | null;
    return typeof status?.message === 'string' ? status.message : '';
  } catch {
    return '';
  }
}
