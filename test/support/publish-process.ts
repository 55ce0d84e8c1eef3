import type { ChildProcess } from 'node:child_process';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../scripts/lib/local/s3-server';
import { spawnCommandLine, type Ended } from './run';
import type { Scratch } from './scratch';

export type { Ended } from './run';

/** One of our commands as a process of its own, which can be killed and stopped; ended with the scratch folder. */
export class PublishProcess {
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;

  constructor(scratch: Scratch, command: string, args: readonly string[]) {
    scratch.defer(() => this.kill());
    ({ child: this.child, ended: this.ended } = spawnCommandLine(command, args, {
      AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
      AWS_REGION: LOCAL_REGION,
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
