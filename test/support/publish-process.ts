import type { ChildProcess } from 'node:child_process';
import { spawnCommandLine, type Ended } from './run';
import { S3_ENVIRONMENT } from './s3';
import type { Scratch } from './scratch';
import { CONTROL_ENVIRONMENT } from './triton';

export type { Ended } from './run';

/** One of our commands as a process of its own, which can be killed and stopped; ended with the scratch folder. */
export class PublishProcess {
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;

  constructor(scratch: Scratch, command: string, args: readonly string[]) {
    scratch.defer(() => this.kill());
    ({ child: this.child, ended: this.ended } = spawnCommandLine(command, args, {
      ...S3_ENVIRONMENT,
      ...CONTROL_ENVIRONMENT,
    }));
  }

  /** kill -9. */
  kill(): void {
    this.child.kill('SIGKILL');
  }

  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }
}
