import { writeFileSync } from 'node:fs';
import { UserError } from '../core/errors';
import { PUBLISHER_CONTROL_KEY_VARIABLE } from '../cluster/source';
import { TritonError, type InferenceClient, type TensorMetadata } from '../triton/client';
import { TritonModel } from '../triton/model';
import type { ModelTypes } from '../triton/model-types';
import { isDataType } from '../triton/tensor';

/**
 * Writes `export interface Models`, with the ModelTypes of each model by its name.
 * @param names of the models; default: all ready models
 * @returns names of the written models
 * @throws UserError if no model is ready, or a model's description cannot be read
 */
export async function writeTypes(
  client: InferenceClient,
  file: string,
  names: readonly string[] | undefined,
  { timeoutMs, address }: { timeoutMs: number; address: string },
): Promise<string[]> {
  const wanted = names ?? (await readyModels(client, timeoutMs));
  if (wanted.length === 0) throw new UserError(`no model is ready at ${address}`, { hint: 'npm run status shows why' });
  const models = await Promise.all(wanted.map((name) => TritonModel.open(client, name, { timeoutMs })));
  writeFileSync(file, typesText(models, address));
  return [...wanted];
}

async function readyModels(client: InferenceClient, timeoutMs: number): Promise<string[]> {
  const index = await client.repositoryIndex({ timeoutMs }).catch((cause: unknown) => {
    if (!(cause instanceof TritonError) || !cause.message.includes('restricted')) throw cause;
    throw new UserError(`cannot list the models without the server's control key: ${cause.message}`, {
      hint: `name the models, or set ${PUBLISHER_CONTROL_KEY_VARIABLE}`,
      cause,
    });
  });
  return [...new Set(index.filter(({ state }) => state === 'READY').map(({ name }) => name))].sort();
}

type Described = Pick<TritonModel, 'name' | 'metadata' | 'optionalInputs'>;

/** TypeScript source with the types of these models. */
export function typesText(models: readonly Described[], address: string): string {
  return [
    `// Inputs and outputs of the models at ${address}, written by "npm run infer -- --types".`,
    `// For TritonModel.open<Models['NAME']>(client, 'NAME'). A length of -1 means any length.`,
    'export interface Models {',
    ...models.flatMap(modelLines),
    '}',
    '',
  ].join('\n');
}

function modelLines({ name, metadata, optionalInputs }: Described): string[] {
  const isOptional = (input: TensorMetadata): boolean => optionalInputs.includes(input.name);
  const parts: Record<keyof ModelTypes, readonly TensorMetadata[]> = {
    inputs: metadata.inputs.filter((input) => !isOptional(input)),
    optional: metadata.inputs.filter(isOptional),
    outputs: metadata.outputs,
  };
  const lines = Object.entries(parts)
    .filter(([part, tensors]) => part !== 'optional' || tensors.length > 0)
    .flatMap(([part, tensors]) => [`    ${part}: {`, ...tensors.flatMap((one) => tensorLines(name, one)), '    };']);
  return [`  ${property(name)}: {`, ...lines, '  };'];
}

function tensorLines(model: string, { name, datatype, shape }: TensorMetadata): string[] {
  // The server's text becomes source code, so only known data types are accepted.
  if (!isDataType(datatype))
    throw new UserError(`${model}: tensor '${name}' has an unknown data type: ${JSON.stringify(datatype)}`);
  return [`      /** [${shape.join(', ')}] */`, `      ${property(name)}: '${datatype}';`];
}

/** A name as a property, quoted if necessary. */
function property(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name.replace(/[\\']/g, '\\$&').replace(/\r?\n/g, '\\n')}'`;
}
