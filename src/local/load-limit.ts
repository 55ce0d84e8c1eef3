import { join, sep } from 'node:path';
import { processIds, readProcess } from './process/proc';

const LOOK_MS = 500;

export interface LoadLimitOptions {
  /** The folder that Triton reads. */
  folder: string;
  models: readonly string[];
  /** Time for one model to load. For all models together to load and to answer: this time for each of them. */
  limitMs: number;
  /** The limit counts only if other models wait. */
  isWaitedFor: () => boolean;
  isReady: (model: string) => Promise<boolean>;
}

/**
 * Ends processes that Triton started for models since the construction, if they load or answer too slowly. Triton cancels
 * neither a load nor a request, and reports both as failed when the process is gone.
 */
export class LoadLimit {
  /** Models whose process was ended. */
  readonly stopped = new Set<string>();
  private readonly timer: NodeJS.Timeout;
  /** Processes that serve the previous versions. */
  private readonly before: readonly number[];
  /** Process -> when it was first seen. */
  private readonly seen = new Map<number, number>();

  constructor(private readonly options: LoadLimitOptions) {
    this.before = options.models.flatMap((model) => modelProcesses(options.folder, model));
    this.timer = setInterval(() => void this.look(), LOOK_MS);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const { folder, models, limitMs, isWaitedFor, isReady } = this.options;
    const now = performance.now();
    for (const model of models) {
      for (const pid of modelProcesses(folder, model)) {
        if (this.before.includes(pid)) continue;
        const age = now - (this.seen.get(pid) ?? now);
        if (!this.seen.has(pid)) this.seen.set(pid, now);
        if (age < limitMs || !isWaitedFor()) continue;
        if (age < limitMs * models.length && (await isReady(model))) continue;
        this.stopped.add(model);
        kill(pid);
      }
    }
  }
}

/** Running processes whose first argument is a file of the model: those of Triton's python backend (Linux). */
function modelProcesses(folder: string, model: string): number[] {
  return processIds().filter((pid) => {
    const [, file = ''] = readProcess(pid, 'cmdline')?.split('\0') ?? [];
    return file.startsWith(`${join(folder, model)}${sep}`);
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended.
  }
}
