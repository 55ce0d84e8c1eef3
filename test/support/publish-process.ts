import type { ChildProcess } from 'node:child_process';
import { spawnCommandLine, type Ended } from './run';
import { S3_ENVIRONMENT } from './s3';
import type { Scratch } from './temp-dir';

export type { Ended } from './run';

/** One of our commands in a separate process, which can be paused and is killed when the scratch folder is cleaned. */
export class PublishProcess {
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;

  constructor(scratch: Scratch, command: string, args: readonly string[]) {
    scratch.defer(() => this.kill());
    ({ child: this.child, ended: this.ended } = spawnCommandLine(command, args, S3_ENVIRONMENT));
  }

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
