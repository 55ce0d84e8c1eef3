import { randomBytes } from 'node:crypto';

/** HTTP header, and gRPC metadata, for the key of a guarded model control API. */
export const CONTROL_HEADER = 'triton-model-control-key';
export const GRPC_CONTROL_HEADER = `triton-grpc-protocol-${CONTROL_HEADER}`;

/** Allowed keys: at least 16 letters, digits, _ or -, which are no syntax in Triton's flag. */
export const CONTROL_KEY = /^[\w-]{16,}$/;

/**
 * Groups of Triton's API that require the key. A load request may carry a model, and a model is a program. Without the
 * key, only inference, metadata (server, model and its configuration) and health are available; metrics have their own
 * port. Triton uses the same group names for HTTP and gRPC.
 */
const GUARDED_APIS = ['model-repository', 'shared-memory', 'statistics', 'trace', 'logging'] as const;

/** Flags of tritonserver that require the key. `key` may be a reference that is replaced when the server starts. */
export function guardFlags(key: string): string[] {
  const guard = `${GUARDED_APIS.join(',')}:${CONTROL_HEADER}=${key}`;
  return [`--http-restricted-api=${guard}`, `--grpc-restricted-protocol=${guard}`];
}

/** A new random key. */
export function generateControlKey(): string {
  return randomBytes(24).toString('hex');
}
