/** HTTP header with the key of a guarded model control API; gRPC has `triton-grpc-protocol-` before it. */
export const CONTROL_HEADER = 'triton-model-control-key';

/** What a key of ours may be: long enough, and nothing that Triton's flag would take for its own syntax. */
export const CONTROL_KEY = /^[\w-]{16,}$/;
export const CONTROL_KEY_ALLOWED = 'at least 16 letters, digits, _ or -';
