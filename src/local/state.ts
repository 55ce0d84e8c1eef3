import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { nextCommand, repoFlag } from '../core/next-command';
import { isAlive } from '../core/lock.cjs';
import { paths } from '../core/paths';
import { fixedReplicas, type ReplicaSource } from '../publish/cluster/source';
import { cacheRoot } from './install/cache';

/** Address and keys of a running `npm run local`, for other commands. Only its user can read the file with the keys. */
export interface LocalState {
  /** Process of `npm run local`. */
  pid: number;
  /** Folder of the model repository. */
  repository: string;
  /** s3://BUCKET/PREFIX. */
  bucket: string;
  endpointUrl: string;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string };
  httpUrl: string;
  /** HOST:PORT. */
  grpcAddress: string;
  modelControlKey: string;
  /** The control API of the release agent. */
  agentUrl: string;
  /** Log of tritonserver. */
  logFile: string;
}

/** The server of a local stack. */
export const localReplica = ({ httpUrl, agentUrl }: Pick<LocalState, 'httpUrl' | 'agentUrl'>): ReplicaSource =>
  fixedReplicas([{ url: agentUrl, tritonUrl: httpUrl }]);

const STATE = 'state.json';

const localRoot = (): string => join(cacheRoot(), 'local');

/**
 * Announces this stack to other commands.
 * @param directory folder of the stack
 * @returns function that withdraws the announcement
 */
export function announceStack(directory: string, state: LocalState): () => void {
  const file = join(directory, STATE);
  rmSync(file, { force: true });
  // Renamed into place, so that no other command reads an incomplete file.
  writeFileSync(`${file}.new`, JSON.stringify(state, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return () => rmSync(file, { force: true });
}

/** The running stacks. State files of killed stacks are ignored. */
export function runningStacks(): LocalState[] {
  return getFolders(localRoot()).flatMap((name) => {
    const state = readState(join(localRoot(), name, STATE));
    return state !== undefined && isAlive(state.pid) ? [state] : [];
  });
}

/**
 * Returns the running stack of `repository`; without `repository`, the stack of this package or the only running stack.
 * @throws UserError that lists the running stacks, or has the command that starts one
 */
export function findLocalStack(repository?: string): LocalState {
  const running = runningStacks();
  const wanted = running.find((state) => state.repository === (repository ?? paths.modelRepository));
  const [only, ...others] = running;
  const found = wanted ?? (repository === undefined && others.length === 0 ? only : undefined);
  if (found !== undefined) return found;
  const start = nextCommand('local', ...repoFlag(repository ?? paths.modelRepository));
  if (running.length === 0) {
    throw new UserError('--local: "npm run local" is not running', {
      hint: `start it in another terminal: ${start}`,
    });
  }
  const known = running.map((state) => state.repository).join(', ');
  if (repository === undefined) {
    throw new UserError(`--local: "npm run local" serves ${running.length} repositories: ${known}`, {
      hint: 'choose one with --repo DIR',
    });
  }
  throw new UserError(`--local: "npm run local" does not serve ${repository}; it serves ${known}`, {
    hint: `choose one of these with --repo DIR, or start another: ${start}`,
  });
}

function readState(file: string): LocalState | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as LocalState;
  } catch {
    return undefined; // The stack does not run, or has ended.
  }
}

function getFolders(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
