import { promises as fs } from 'node:fs';
import path from 'node:path';
import type { ModelConfig, TensorConfig } from './model-config';
import { readOnnxGraph, type OnnxTensor } from './onnx-file';
import { staysInside } from './paths';
import type { ArtifactFault } from './torch-script';

type Kind = 'input' | 'output';

/**
 * Returns all that Triton's ONNX Runtime backend refuses of an ONNX file and its configuration.
 * ONNX Runtime infers the sizes that the file leaves open, so only sizes that the file fixes are compared.
 */
export async function onnxFaults(file: string, config: ModelConfig): Promise<ArtifactFault[]> {
  const graph = await readOnnxGraph(file);
  if (graph === undefined) {
    return [
      {
        message: 'is not an ONNX file, or is truncated',
        hint: 'save it with torch.onnx.export(model, inputs, path), or copy it again',
      },
    ];
  }
  const required = graph.inputs.filter(({ name }) => !graph.initializers.has(name));
  return [
    ...(await externalFaults(path.dirname(file), graph.external)),
    ...missingInputs(config, required),
    ...tensorFaults('input', config, { all: graph.inputs, required }),
    ...tensorFaults('output', config, { all: graph.outputs, required: graph.outputs }),
  ];
}

async function externalFaults(folder: string, external: ReadonlyMap<string, number>): Promise<ArtifactFault[]> {
  const faults: ArtifactFault[] = [];
  for (const [name, least] of external) {
    const found = staysInside(name) ? await fs.stat(path.join(folder, name)).catch(() => undefined) : undefined;
    if (found !== undefined && found.size >= least) continue;
    const what = found === undefined ? 'is not in its version folder' : `has ${found.size} of at least ${least} bytes`;
    faults.push({ message: `has its weights in ${name}, which ${what}`, hint: `copy ${name} again, beside the file` });
  }
  return faults;
}

/** Triton completes a configuration without inputs. A configuration with inputs must name all of them. */
function missingInputs(config: ModelConfig, required: readonly OnnxTensor[]): ArtifactFault[] {
  const { input = [], batch_input: more = [], sequence_batching: batching } = config;
  if (input.length === 0) return [];
  const given = new Set([
    ...input.map(({ name }) => name),
    ...more.flatMap(({ target_name: names }) => names ?? []),
    ...(batching?.control_input ?? []).map(({ name }) => name),
    ...(batching?.state ?? []).map(({ input_name: name }) => name),
  ]);
  const missing = required.filter(({ name }) => !given.has(name));
  return missing.map((tensor) => ({
    message: `has an input that the configuration lacks: ${describe(tensor)}`,
    hint: 'add it to input, or omit input: Triton then reads all inputs from the file',
  }));
}

function tensorFaults(
  kind: Kind,
  config: ModelConfig,
  file: { all: readonly OnnxTensor[]; required: readonly OnnxTensor[] },
): ArtifactFault[] {
  const configured = config[kind] ?? [];
  const isBatched = (config.max_batch_size ?? 0) > 0;
  if (configured.length === 0) {
    const fixed = file.required.filter(({ shape }) => isBatched && hasNoBatchAxis(shape));
    return fixed.map((tensor) => noBatchAxis(kind, tensor));
  }
  return configured.flatMap((tensor) => {
    const found = file.all.find(({ name }) => name === tensor.name);
    if (found !== undefined) {
      const faults = [typeFault(kind, tensor, found), shapeFault(kind, tensor, found, isBatched)];
      return faults.filter((fault) => fault !== undefined);
    }
    const names = file.required.map(({ name }) => name).join(', ') || 'none';
    return [
      {
        message: `has no ${kind} "${tensor.name ?? ''}"; it has ${names}`,
        hint: `use the names of the file in the configuration`,
      },
    ];
  });
}

function typeFault(kind: Kind, { data_type: type }: TensorConfig, found: OnnxTensor): ArtifactFault | undefined {
  if (found.dataType === undefined) {
    return {
      message: `has an ${kind} "${found.name}" of a data type that Triton does not support`,
      hint: 'export the model with a data type that Triton supports',
    };
  }
  if (type === undefined || type === found.dataType) return undefined;
  return {
    message: `has ${found.dataType} for the ${kind} "${found.name}", but the configuration has ${type}`,
    hint: `set data_type: ${found.dataType}`,
  };
}

function shapeFault(
  kind: Kind,
  tensor: TensorConfig,
  found: OnnxTensor,
  isBatched: boolean,
): ArtifactFault | undefined {
  // Without a shape in the file, only ONNX Runtime knows the shape. Ragged requests are joined along one axis.
  if (found.shape === undefined || tensor.allow_ragged_batch === true) return undefined;
  const dims = (tensor.reshape === undefined ? tensor.dims : (tensor.reshape.shape ?? [])) ?? [];
  const isScalar = found.shape.length === 0;
  if (isScalar && dims.every((size) => size === 1)) return undefined;
  if (isBatched && !isScalar && hasNoBatchAxis(found.shape)) return noBatchAxis(kind, found);
  const sizes = isBatched && !isScalar ? found.shape.slice(1) : found.shape;
  if (sizes.length === dims.length && sizes.every((size, axis) => size === -1 || size === dims[axis])) return undefined;
  const axis = isBatched ? ', after the batch axis' : '';
  const field = tensor.reshape === undefined ? 'dims' : 'reshape';
  return {
    message: `has shape ${list(found.shape)} for the ${kind} "${found.name}", but the configuration has ${field} ${list(dims)}${axis}`,
    hint: `set ${field} to ${list(isScalar ? [1] : sizes)}`,
  };
}

const hasNoBatchAxis = (shape: readonly number[] | undefined): boolean => shape !== undefined && shape[0] !== -1;

const noBatchAxis = (kind: Kind, found: OnnxTensor): ArtifactFault => ({
  message: `has shape ${list(found.shape ?? [])} for the ${kind} "${found.name}"; with max_batch_size above 0 its first size must be variable`,
  hint: 'export it with dynamic_axes for axis 0, or set max_batch_size: 0 and give the whole shape in dims',
});

const list = (sizes: readonly number[]): string => `[${sizes.join(', ')}]`;

const describe = ({ name, dataType, shape }: OnnxTensor): string =>
  [`"${name}"`, dataType, shape === undefined ? undefined : list(shape)].filter((word) => word !== undefined).join(' ');
