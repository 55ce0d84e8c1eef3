import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CONFIG_FILE } from '../publish/keys';

/** Time for one model to load while others wait: longer than those of this package take on two busy cores. */
export const LOAD_LIMIT_MS = 30_000;

const LOOK_MS = 500;

/**
 * Ends the load of a model that takes longer than its limit while others wait, by ending the processes that tritonserver
 * started for it: Triton gives up neither a load nor one of the same model after it. Triton then reports the load as
 * failed. A load that nothing waits for may take as long as it likes.
 */
export class LoadLimit {
  private timer: NodeJS.Timeout | undefined;
  /** Whether it ended a load. */
  ended = false;

  constructor(
    private readonly serverPid: number | undefined,
    private readonly limitMs: number,
    private readonly isWaitedFor: () => boolean = () => true,
  ) {}

  /** A model begins to load. */
  begin(model: string): void {
    this.stop();
    // Those that serve the version before.
    const before = modelProcesses(this.serverPid, model);
    const deadline = Date.now() + this.limitMs;
    this.timer = setInterval(() => {
      if (Date.now() < deadline || !this.isWaitedFor()) return;
      this.ended = true;
      for (const pid of modelProcesses(this.serverPid, model)) if (!before.includes(pid)) kill(pid);
    }, LOOK_MS);
  }

  /** It is loaded, or failed. */
  stop(): void {
    clearInterval(this.timer);
  }
}

/** Processes that a tritonserver has started for a model and that live (Linux). */
function modelProcesses(serverPid: number | undefined, model: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => parentOf(pid) === serverPid && modelOf(pid) === model);
}

function parentOf(pid: number): number | undefined {
  try {
    // After the name, which may hold anything, in parentheses: state, parent.
    return Number(/^.*\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
  } catch {
    return undefined; // It has ended meanwhile.
  }
}

/** Its first argument is MODEL/VERSION/FILE in a folder of Triton's choice; we publish configurations with names. */
function modelOf(pid: number): string | undefined {
  try {
    const [, file = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /^name: "(.*)"$/m.exec(readFileSync(join(dirname(dirname(file)), CONFIG_FILE), 'utf8'))?.[1];
  } catch {
    return undefined; // It has ended meanwhile.
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}
