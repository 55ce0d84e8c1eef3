import { createHash as create } from 'crypto';
import { clock } from '../clock';

/** `node:crypto` with random bytes from the seed. */
export * from 'crypto';

export const randomBytes = (length: number): Buffer => clock().current.random.bytes(length);

const known = new Map<string, Buffer>();
const MOST = 10_000;

/** The agent computes the same few digests thousands of times in a schedule, so they are remembered. */
class RememberedHash {
  private text = '';

  constructor(private readonly algorithm: string) {}

  update(data: string | Uint8Array): this {
    this.text += Buffer.from(data as string).toString('latin1');
    return this;
  }

  digest(): Buffer;
  digest(encoding: BufferEncoding): string;
  digest(encoding?: BufferEncoding): Buffer | string {
    const key = `${this.algorithm} ${this.text}`;
    let digest = known.get(key);
    if (digest === undefined) {
      if (known.size > MOST) known.clear();
      digest = create(this.algorithm).update(Buffer.from(this.text, 'latin1')).digest();
      known.set(key, digest);
    }
    return encoding === undefined ? Buffer.from(digest) : digest.toString(encoding);
  }
}

export const createHash = (algorithm: string): RememberedHash => new RememberedHash(algorithm);
