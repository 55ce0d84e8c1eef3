import { randomBytes } from 'node:crypto';

/** HTTP header with the key of a guarded model control API, and its metadata in gRPC. */
export const CONTROL_HEADER = 'triton-model-control-key';
export const GRPC_CONTROL_HEADER = `triton-grpc-protocol-${CONTROL_HEADER}`;

/** What a key of ours may be: long enough, and nothing that Triton's flag would take for its own syntax. */
export const CONTROL_KEY = /^[\w-]{16,}$/;
export const CONTROL_KEY_ALLOWED = 'at least 16 letters, digits, _ or -';

/**
 * The groups of Triton's API that need the key. A load request may carry a model, and a model is a program: without the
 * key nothing answers but inference, metadata (server, model and its configuration) and health; metrics have a port of
 * their own. Triton calls the groups the same for HTTP and gRPC.
 */
export const GUARDED_APIS = ['model-repository', 'shared-memory', 'statistics', 'trace', 'logging'] as const;

/** Flags of tritonserver that demand the key; `key` may be a reference that is replaced at the start. */
export function guardFlags(key: string): string[] {
  const guard = `${GUARDED_APIS.join(',')}:${CONTROL_HEADER}=${key}`;
  return [`--http-restricted-api=${guard}`, `--grpc-restricted-protocol=${guard}`];
}

/** A new random key. */
export function generateControlKey(): string {
  return randomBytes(24).toString('hex');
}
