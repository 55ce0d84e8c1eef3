import { join, sep } from 'node:path';
import { processIds, readProcess } from './process/proc';

const LOOK_MS = 500;

/** Time for one model to answer all its requests. */
const LONGEST_ANSWER_MS = 60_000;

export interface LoadLimitOptions {
  /** The folder that Triton reads. */
  folder: string;
  models: readonly string[];
  /** Time for one model to load, and for one to answer. */
  limitMs: number;
  /** The limit counts only if other models wait. */
  isWaitedFor: () => boolean;
  isReady: (model: string) => Promise<boolean>;
  /** The model that the agent asks now. */
  getAsked: () => Promise<string | undefined>;
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
  /** Process, or model that is asked -> when it was first seen. */
  private readonly seen = new Map<number | string, number>();

  constructor(private readonly options: LoadLimitOptions) {
    this.before = options.models.flatMap((model) => modelProcesses(options.folder, model));
    this.timer = setInterval(() => void this.look(), LOOK_MS);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const { folder, models, limitMs, isReady, getAsked } = this.options;
    const asked = await getAsked().catch(() => undefined);
    const isSlow = asked !== undefined && this.isLate(asked, Math.min(limitMs, LONGEST_ANSWER_MS));
    for (const model of models) {
      for (const pid of modelProcesses(folder, model).filter((one) => !this.before.includes(one))) {
        const isLoading = this.isLate(pid, limitMs) && !(await isReady(model));
        if (!isLoading && !(isSlow && asked === model)) continue;
        this.stopped.add(model);
        kill(pid);
      }
    }
  }

  private isLate(what: number | string, limitMs: number): boolean {
    const now = performance.now();
    const since = this.seen.get(what) ?? now;
    this.seen.set(what, since);
    return now - since >= limitMs && this.options.isWaitedFor();
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
