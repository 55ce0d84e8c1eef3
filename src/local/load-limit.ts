import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CONFIG_FILE } from '../publish/keys';
import { getParent, processIds, readProcess } from './process/proc';

/** Time for one model to load while others wait. The models of this package load faster on two busy cores. */
export const LOAD_LIMIT_MS = 30_000;

const LOOK_MS = 500;

/**
 * Stops the load of a model that exceeds its limit while others wait. Triton cancels neither a load nor later loads of
 * the same model, so the processes that tritonserver started for the model are killed. Triton then reports the load as
 * failed. A load that nothing waits for has no limit.
 */
export class LoadLimit {
  private timer: NodeJS.Timeout | undefined;
  /** Whether a load was stopped. */
  ended = false;

  constructor(
    private readonly serverPid: number | undefined,
    private readonly limitMs: number,
    private readonly isWaitedFor: () => boolean,
  ) {}

  /** Call when a model begins to load. */
  begin(model: string): void {
    this.stop();
    // Processes that serve the previous version.
    const before = modelProcesses(this.serverPid, model);
    const deadline = Date.now() + this.limitMs;
    this.timer = setInterval(() => {
      if (Date.now() < deadline || !this.isWaitedFor()) return;
      this.ended = true;
      for (const pid of modelProcesses(this.serverPid, model)) if (!before.includes(pid)) kill(pid);
    }, LOOK_MS);
  }

  /** Call when the model is loaded or has failed. */
  stop(): void {
    clearInterval(this.timer);
  }
}

/** Running processes that a tritonserver started for a model (Linux). */
function modelProcesses(serverPid: number | undefined, model: string): number[] {
  return processIds().filter((pid) => getParent(pid) === serverPid && getModelName(pid) === model);
}

/**
 * Returns the model of a process, whose first argument is MODEL/VERSION/FILE in a folder that Triton chooses. The name
 * is read from config.pbtxt, because we publish configurations with names.
 */
function getModelName(pid: number): string | undefined {
  const [, file = ''] = readProcess(pid, 'cmdline')?.split('\0') ?? [];
  try {
    return /^name: "(.*)"$/m.exec(readFileSync(join(dirname(dirname(file)), CONFIG_FILE), 'utf8'))?.[1];
  } catch {
    return undefined; // Not a model's process, or it has ended.
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended.
  }
}
