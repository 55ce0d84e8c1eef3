import type { Arguments } from '../settings/fields';
import type { TRITON_SERVER_FIELDS } from '../settings/triton-fields';

/** Arguments of TritonServer. The npm package has them as interfaces with a sentence for each (tools/argument-types.ts). */
export type TritonServerArgs = Arguments<typeof TRITON_SERVER_FIELDS>;
