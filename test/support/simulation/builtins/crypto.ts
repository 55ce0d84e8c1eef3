import { clock } from '../clock';

/** `node:crypto` with random bytes from the seed. */
export * from 'crypto';

export const randomBytes = (length: number): Buffer => clock().current.random.bytes(length);
