import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../scripts/lib/local/s3-server';
import { paths } from '../../scripts/lib/paths';
import type { Scratch } from './scratch';

export interface Ended {
  /** Null when a signal ended it. */
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** One of our commands as a process of its own, which can be killed and stopped; ended with the scratch folder. */
export class PublishProcess {
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;
  private isOver = false;

  constructor(scratch: Scratch, command: string, args: readonly string[]) {
    scratch.defer(() => this.kill());
    this.child = spawn(process.execPath, [join(paths.scripts, 'run.mjs'), command, ...args], {
      cwd: paths.root,
      env: {
        ...process.env,
        AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
        AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
        AWS_REGION: LOCAL_REGION,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name]?.setEncoding('utf8').on('data', (text: string) => (output[name] += text));
    }
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => {
        this.isOver = true;
        resolve({ code, signal, ...output });
      });
    });
  }

  get hasEnded(): boolean {
    return this.isOver;
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
