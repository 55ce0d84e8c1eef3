/** A wait that another part of the program can end. A ring before the wait is not lost. */
export class Alarm {
  private rung = false;
  private wake: () => void = () => undefined;

  ring(): void {
    this.rung = true;
    this.wake();
  }

  /** Waits for a ring since the last wait, for the time in ms, or until the signal is aborted. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.rung && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.wake = (): void => {
          clearTimeout(timer);
          resolve();
        };
        signal.addEventListener('abort', this.wake, { once: true });
      });
      signal.removeEventListener('abort', this.wake);
    }
    this.rung = false;
  }
}
