import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isHealthy } from '../../src/local/process/health-check';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import type { Scratch } from './temp-dir';

const START_TIMEOUT_MS = 300_000;
const STOP_GRACE_MS = 5000;
const REQUEST_TIMEOUT_MS = 10_000;
const CREATED = 201;

/** The user with all permissions. */
export const ADMIN = 'admin';

/** Starts the programs of a cluster with logs in one folder, and stops them when the scratch folder is cleaned. */
export class ClusterProcesses {
  private readonly started: ManagedProcess[] = [];

  private constructor(
    private readonly scratch: Scratch,
    private readonly python: string,
    readonly directory: string,
  ) {}

  static async in(scratch: Scratch): Promise<ClusterProcesses> {
    const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
    const directory = join(scratch.directory, 'kubernetes');
    mkdirSync(directory, { recursive: true });
    return new ClusterProcesses(scratch, python, directory);
  }

  /** @param isReady polled until it resolves to true; without it the program counts as ready at once */
  async start(
    program: { name: string; command: string; args: string[]; env?: NodeJS.ProcessEnv },
    isReady?: () => Promise<boolean>,
  ): Promise<ManagedProcess> {
    const { directory, python } = this;
    const started = new ManagedProcess({ ...program, logFile: join(directory, `${program.name}.log`), python });
    this.started.push(started);
    const stop = (): Promise<void> => started.stop(STOP_GRACE_MS);
    this.scratch.defer(stop);
    if (isReady !== undefined) await started.untilReady(isReady, START_TIMEOUT_MS, stop);
    return started;
  }

  /** Suspends a program for a while, like one that does not answer. */
  async pause(name: string, durationMs: number): Promise<void> {
    const pid = this.started.find((program) => program.name === name)?.pid;
    if (pid === undefined) throw new Error(`${name} does not run`);
    process.kill(pid, 'SIGSTOP');
    try {
      await sleep(durationMs);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }
}

export interface ApiServerOptions {
  programs: { etcd: string; apiServer: string };
  /** Users besides "admin", who have only granted permissions. */
  users?: readonly string[];
  /** User -> group. */
  groups?: Readonly<Record<string, string>>;
  /** Additional flags of kube-apiserver. */
  flags?: readonly string[];
}

/** A real kube-apiserver on a real etcd, both on loopback. */
export async function startApiServer(processes: ClusterProcesses, options: ApiServerOptions): Promise<Access> {
  const { directory } = processes;
  const [etcdPort, peerPort, apiPort] = (await freePorts(3)) as [number, number, number];
  const etcd = { name: 'etcd', command: options.programs.etcd, args: etcdArguments(directory, etcdPort, peerPort) };
  await processes.start(etcd, () => isHealthy(`http://127.0.0.1:${etcdPort}/health`));

  const groups: Record<string, string> = { [ADMIN]: 'system:masters', ...options.groups };
  const users = new Set([...Object.keys(groups), ...(options.users ?? [])]);
  const tokens = new Map([...users].map((user) => [user, `${user}-token-of-a-test`]));
  const server = `https://127.0.0.1:${apiPort}`;
  const access = new Access(server, directory, tokens);
  const rows = [...tokens].map(([user, token]) => [token, user, user, groups[user]].join(',').replace(/,$/, ''));
  const args = [...apiServerArguments(access, etcdPort, apiPort, rows), ...(options.flags ?? [])];
  await processes.start({ name: 'kube-apiserver', command: options.programs.apiServer, args }, () => access.isReady());
  return access;
}

function etcdArguments(directory: string, port: number, peerPort: number): string[] {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  return [
    `--data-dir=${join(directory, 'etcd')}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    '--unsafe-no-fsync',
  ];
}

/** @param users rows of the token file: token, name, id, group */
function apiServerArguments(access: Access, etcdPort: number, port: number, users: readonly string[]): string[] {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = access.serviceAccountKeyFile;
  writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const tokenFile = join(access.directory, 'tokens.csv');
  writeFileSync(tokenFile, `${users.join('\n')}\n`, { mode: 0o600 });
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    // kube-apiserver creates its certificate there.
    `--cert-dir=${join(access.directory, 'certificates')}`,
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    '--service-cluster-ip-range=10.0.0.0/24',
    `--token-auth-file=${tokenFile}`,
    '--authorization-mode=RBAC',
    // As in most clusters. PodSecurity rejects privileged pods.
    '--allow-privileged=true',
    // Nothing in the cluster connects to the API server, and a loopback address would be invalid as an endpoint.
    '--endpoint-reconciler-type=none',
    // The names of the nodes do not resolve.
    '--kubelet-preferred-address-types=InternalIP',
  ];
}

/** Credentials and addresses with which users connect to the API server. */
export class Access {
  readonly certificateFile: string;
  /** Private key that signs the tokens of service accounts. */
  readonly serviceAccountKeyFile: string;

  constructor(
    readonly server: string,
    readonly directory: string,
    private readonly tokens: ReadonlyMap<string, string>,
  ) {
    this.certificateFile = join(directory, 'certificates', 'apiserver.crt');
    this.serviceAccountKeyFile = join(directory, 'service-account.pem');
  }

  token(user = ADMIN): string {
    return this.tokens.get(user) ?? 'unknown-token';
  }

  /** Text of a kubeconfig, with a context named after the user. */
  kubeconfig(user = ADMIN): string {
    const certificate = readFileSync(this.certificateFile).toString('base64');
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server: this.server, 'certificate-authority-data': certificate } }],
      // An unknown user gets an unknown token.
      users: [{ name: user, user: { token: this.token(user) } }],
      contexts: [{ name: user, context: { cluster: 'test', user } }],
      'current-context': user,
    });
  }

  /** Writes a kubeconfig file, for programs that need one. */
  kubeconfigFile(user = ADMIN): string {
    const file = join(this.directory, `kubeconfig-${user}`);
    writeFileSync(file, this.kubeconfig(user), { mode: 0o600 });
    return file;
  }

  async isReady(): Promise<boolean> {
    if (!existsSync(this.certificateFile)) return false;
    return (await this.request('GET', '/readyz').catch(() => undefined))?.status === 200;
  }

  /**
   * Creates a CustomResourceDefinition. Not with the client library, which drops fields whose names differ from its
   * types, such as x-kubernetes-validations.
   */
  async define(definition: object): Promise<void> {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const { status, text } = await this.request('POST', path, definition);
    if (status !== CREATED) throw new Error(`a kind could not be defined: ${text}`);
  }

  /** Sends one request as the administrator. */
  private request(method: string, path: string, body?: object): Promise<{ status: number | undefined; text: string }> {
    const headers = { authorization: `Bearer ${this.token()}`, 'content-type': 'application/json' };
    const options = { method, headers, ca: readFileSync(this.certificateFile), timeout: REQUEST_TIMEOUT_MS };
    return new Promise((resolve, reject) => {
      const sent = request(`${this.server}${path}`, options, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => resolve({ status: response.statusCode, text })).on('error', reject);
      });
      sent.on('timeout', () => sent.destroy(new Error('no answer')));
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}
