import { readdirSync, readFileSync } from 'node:fs';

/** Time for one model to load while others wait: longer than those of this package take on two busy cores. */
export const LOAD_LIMIT_MS = 30_000;

const LOOK_MS = 500;

/**
 * Ends the load of a model that takes longer than LOAD_LIMIT_MS while others wait, by ending the processes that
 * tritonserver started for it: Triton gives up neither a load nor one of the same model after it. Triton then reports the
 * load as failed. A load that nothing waits for may take as long as it likes.
 */
export class LoadLimit {
  private timer: NodeJS.Timeout | undefined;
  /** Whether it ended a load. */
  ended = false;

  constructor(
    private readonly serverPid: number | undefined,
    private readonly isWaitedFor: () => boolean,
  ) {}

  /** A model begins to load. */
  begin(): void {
    this.stop();
    if (this.serverPid === undefined) return;
    const before = childrenOf(this.serverPid);
    const deadline = Date.now() + LOAD_LIMIT_MS;
    this.timer = setInterval(() => {
      if (Date.now() < deadline || !this.isWaitedFor()) return;
      this.ended = true;
      for (const pid of childrenOf(this.serverPid)) if (!before.includes(pid)) kill(pid);
    }, LOOK_MS);
  }

  /** It is loaded, or failed. */
  stop(): void {
    clearInterval(this.timer);
  }
}

/** Processes that a process has started and that live (Linux). */
function childrenOf(parent: number | undefined): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => parentOf(pid) === parent);
}

function parentOf(pid: number): number | undefined {
  try {
    // After the name, which may hold anything, in parentheses: state, parent.
    return Number(/^.*\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
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
