import { UserError } from '../core/errors';

/** Permissions that are needed in the cluster, for the message about a missing one. */
const PERMISSIONS = 'verb "list" on "pods", verbs "get" and "create" on "pods/portforward"';

const SIGN_IN = 'sign in again (AWS: "aws sso login"), or create the kubeconfig again';

/** EKS answers 401 also to a valid sign-in of a role that the cluster does not admit. */
const NO_ENTRY =
  'If you are signed in, your role may have no access entry: "aws eks list-access-entries --cluster-name NAME" lists the roles that the cluster admits, and the setting clusterAdmins of the stack adds one';

const isEks = (server: string): boolean => /\.eks\.amazonaws\.com/.test(server);

export interface ClusterCall {
  /** The operation: `list pods in namespace serving`. */
  what: string;
  /** Address of the API server. */
  server: string;
  context: string;
  namespace: string;
}

interface Failure extends Error {
  /** HTTP status of the API server's answer, or the system's error code. */
  code?: number | string;
  /** JSON of a Kubernetes Status. */
  body?: unknown;
  syscall?: string;
  path?: string;
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'ERR_SOCKET_CONNECTION_TIMEOUT',
]);

/** Converts the error of a call of the cluster's API to a UserError. */
export function explainCluster(call: ClusterCall, error: unknown): UserError {
  if (error instanceof UserError) return error;
  const failure = error as Failure;
  const cannot = `cannot ${call.what}`;
  if (typeof failure.code === 'number') return explainStatus(cannot, call, failure.code, statusMessage(failure.body));
  if (failure.syscall?.startsWith('spawn') === true) {
    return new UserError(
      `${cannot}: the kubeconfig signs in with "${failure.path}", which failed to start (${failure.code})`,
      {
        hint: `install "${failure.path}", or add its folder to PATH`,
        cause: error,
      },
    );
  }
  // node-fetch also sets `code` to the system's error code.
  if (UNREACHABLE.has(String(failure.code)) || failure.name === 'TimeoutError' || failure.name === 'AbortError') {
    const why = failure.name === 'TimeoutError' || failure.name === 'AbortError' ? 'timeout' : failure.code;
    return new UserError(`${cannot}: the cluster at ${call.server} cannot be reached (${why})`, {
      hint: 'check the network (VPN, private endpoint), and that the context belongs to this cluster',
      cause: error,
    });
  }
  if (/certificate|self.signed|CERT_|ERR_TLS/i.test(`${failure.code} ${failure.message}`)) {
    return new UserError(`${cannot}: the certificate of ${call.server} is not trusted (${failure.message})`, {
      hint: 'the kubeconfig belongs to another cluster or is stale: create it again',
      cause: error,
    });
  }
  return new UserError(`${cannot} at ${call.server}: ${failure.message}`, { cause: error });
}

function explainStatus(cannot: string, call: ClusterCall, status: number, message: string): UserError {
  const detail = message === '' ? `HTTP ${status}` : `HTTP ${status}: ${message}`;
  switch (status) {
    case 401:
      return new UserError(
        `${cannot}: ${call.server} rejects the credentials of context "${call.context}" (${detail})`,
        { hint: `${SIGN_IN}${isEks(call.server) ? `. ${NO_ENTRY}` : ''}` },
      );
    case 403:
      return new UserError(`${cannot}: not permitted (${detail})`, {
        hint: `grant the user of context "${call.context}" a Role in namespace ${call.namespace}: ${PERMISSIONS}`,
      });
    default:
      return new UserError(`${cannot} at ${call.server} (${detail})`);
  }
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
