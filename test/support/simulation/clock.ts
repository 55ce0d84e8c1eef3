import { SeededRandom } from '../soak';

/** Start of the virtual time, as a wall clock shows it. */
const START = 1_795_500_000_000;

const realSetImmediate = setImmediate;
const RealDate = Date;
const realRandom = Math.random;

/** A program, with clocks and random numbers of its own. */
export class Program {
  /** A program that has died does nothing any more. Requests that it sent are still delivered. */
  isDead = false;
  /** The program stands still until this time. */
  frozenUntil = 0;
  /** Time that its monotonic clock and its timers stood still. */
  slept = 0;
  /** Offset of its wall clock. */
  wallOffset = 0;
  /** If it is a number: how many more files it writes before it dies. */
  writesLeft: number | undefined;
  onDeath: () => void = () => undefined;
  readonly random: SeededRandom;

  constructor(
    readonly name: string,
    seed: number,
  ) {
    this.random = new SeededRandom(hashText(name, seed));
  }

  die(): void {
    if (this.isDead) return;
    this.isDead = true;
    this.onDeath();
  }
}

interface Entry {
  at: number;
  order: number;
  program: Program;
  run: () => void;
  /** `slept` of the program when a timer was set; undefined for messages, which do not wait for its clock. */
  slept: number | undefined;
  isCancelled: boolean;
}

/** Runs programs in virtual time: one event at a time, in an order that only the seed decides. */
export class Clock {
  now = 0;
  /** The program whose code runs. */
  current: Program;
  events = 0;
  private order = 0;
  /** Sorted by time, then by order. */
  private readonly queue: Entry[] = [];

  constructor(readonly outside: Program) {
    this.current = outside;
  }

  /** Time of the monotonic clock of the current program, in ms. */
  monotonic(): number {
    return this.now - this.current.slept;
  }

  wall(): number {
    return START + this.now + this.current.wallOffset;
  }

  /** A timer of the current program. */
  set(ms: number, run: () => void): Entry {
    const { current } = this;
    return this.push(this.now + Math.max(0, Math.ceil(ms)), current, run, current.slept);
  }

  /** Something that happens to a program: a message arrives. */
  deliver(program: Program, ms: number, run: () => void): Entry {
    return this.push(this.now + Math.max(0, Math.ceil(ms)), program, run, undefined);
  }

  /** Runs events until the predicate holds, which is checked after each one, or until the time has come. */
  async run(until: number, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const entry = this.pop(until);
      if (entry === undefined) {
        this.now = Math.max(this.now, until);
        return;
      }
      this.now = entry.at;
      this.current = entry.program;
      this.events += 1;
      try {
        entry.run();
      } catch (error) {
        // A program may die in the first step of its start, where no promise takes the error.
        if (!entry.program.isDead) throw error;
      }
      // All that follows from this event runs before the next event.
      await new Promise<void>((resolve) => realSetImmediate(resolve));
      this.current = this.outside;
    }
  }

  private pop(until: number): Entry | undefined {
    for (;;) {
      const [entry] = this.queue;
      if (entry === undefined || entry.at > until) return undefined;
      const { program } = entry;
      if (entry.isCancelled || program.isDead) {
        this.queue.shift();
        continue;
      }
      const shift = entry.slept === undefined ? 0 : program.slept - entry.slept;
      const at = Math.max(entry.at + shift, program.frozenUntil);
      if (entry.slept !== undefined) entry.slept = program.slept;
      this.queue.shift();
      if (at <= entry.at) return entry;
      entry.at = at;
      this.add(entry);
    }
  }

  private push(at: number, program: Program, run: () => void, slept: number | undefined): Entry {
    const entry = { at, order: (this.order += 1), program, run, slept, isCancelled: false };
    this.add(entry);
    return entry;
  }

  private add(entry: Entry): void {
    const isLater = ({ at, order }: Entry): boolean => at > entry.at || (at === entry.at && order > entry.order);
    const index = this.queue.findIndex(isLater);
    this.queue.splice(index < 0 ? this.queue.length : index, 0, entry);
  }
}

let running: Clock | undefined;

/** The clock of the schedule that runs. */
export function clock(): Clock {
  if (running === undefined) throw new Error('no schedule runs');
  return running;
}

export function useClock(next: Clock | undefined): void {
  running = next;
}

/** FNV-1a. */
export function hashText(text: string, seed = 0): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** What setTimeout and setInterval return in virtual time. */
class Timer {
  entry: Entry | undefined;
  isCancelled = false;
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  cancel(): void {
    this.isCancelled = true;
    if (this.entry !== undefined) this.entry.isCancelled = true;
  }
}

/** The marker that fetch in network.ts reads, instead of a signal with a timer. */
export interface TimeoutSignal {
  timeoutMs: number;
}

/** Replaces the clocks, timers and random numbers of this process. */
export function installClock(): void {
  const cancel = (timer: unknown): void => {
    if (timer instanceof Timer) timer.cancel();
  };
  class VirtualDate extends RealDate {
    constructor(...args: [] | [string | number | Date]) {
      if (args.length === 0) super(VirtualDate.now());
      else super(...args);
    }
    static override now(): number {
      return running === undefined ? RealDate.now() : running.wall();
    }
  }
  Object.assign(globalThis, {
    Date: VirtualDate,
    setTimeout: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const timer = new Timer();
      timer.entry = clock().set(ms, () => run(...args));
      return timer;
    },
    setInterval: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const timer = new Timer();
      const next = (): void => {
        timer.entry = clock().set(Math.max(1, ms), () => {
          run(...args);
          if (!timer.isCancelled) next();
        });
      };
      next();
      return timer;
    },
    clearTimeout: cancel,
    clearInterval: cancel,
  });
  Math.random = (): number => (running === undefined ? realRandom() : running.current.random.fraction());
  const timeout = (timeoutMs: number): TimeoutSignal => ({ timeoutMs });
  Object.assign(AbortSignal, { timeout });
}
