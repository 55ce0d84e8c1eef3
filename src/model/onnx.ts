import fs from 'node:fs';
import path from 'node:path';
import protobuf from 'protobufjs/light';
import type { ModelConfig, TensorConfig } from './model-config';
import { staysInside } from './paths';
import type { ArtifactFault } from './torch-files';

/** Files beyond this size are not read. Large models have their weights in files beside the graph. */
const MOST_BYTES = 2 ** 29;

/** Triton's names of TensorProto.DataType, from FLOAT = 1; - is a type that Triton lacks. */
const TYPES = 'FP32 UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FP16 FP64 UINT32 UINT64 - - BF16'.split(' ');

/** The parts of onnx.proto that describe inputs and outputs; protobufjs skips nodes and weights. */
const modelType = protobuf.Root.fromJSON({
  nested: {
    Model: { fields: { graph: { type: 'Graph', id: 7 } } },
    Graph: {
      fields: {
        initializer: { rule: 'repeated', type: 'Initializer', id: 5 },
        input: { rule: 'repeated', type: 'ValueInfo', id: 11 },
        output: { rule: 'repeated', type: 'ValueInfo', id: 12 },
      },
    },
    Initializer: {
      fields: { name: { type: 'string', id: 8 }, external: { rule: 'repeated', type: 'Entry', id: 13 } },
    },
    Entry: { fields: { key: { type: 'string', id: 1 }, value: { type: 'string', id: 2 } } },
    ValueInfo: { fields: { name: { type: 'string', id: 1 }, type: { type: 'Type', id: 2 } } },
    Type: { fields: { tensor: { type: 'Tensor', id: 1 } } },
    Tensor: { fields: { elemType: { type: 'int32', id: 1 }, shape: { type: 'Shape', id: 2 } } },
    Shape: { fields: { dim: { rule: 'repeated', type: 'Dim', id: 1 } } },
    Dim: { fields: { value: { type: 'int64', id: 1 } } },
  },
}).lookupType('Model');

interface ValueInfo {
  name?: string;
  type?: { tensor?: { elemType?: number; shape?: { dim?: { value?: number }[] } } };
}

interface OnnxGraph {
  initializer?: { name?: string; external?: { key?: string; value?: string }[] }[];
  input?: ValueInfo[];
  output?: ValueInfo[];
}

/** Reads the graph of an ONNX file: undefined if the file is not ONNX, and an empty graph if it is too large. */
function readGraph(file: string): OnnxGraph | undefined {
  if (fs.statSync(file).size > MOST_BYTES) return {};
  const bytes = fs.readFileSync(file);
  try {
    return (modelType.toObject(modelType.decode(bytes), { longs: Number }) as { graph?: OnnxGraph }).graph;
  } catch {
    return undefined;
  }
}

/** The files with weights of an ONNX file, relative to its folder. */
export const externalFiles = (file: string): string[] => getExternal(readGraph(file) ?? {});

function getExternal({ initializer = [] }: OnnxGraph): string[] {
  const entries = initializer.flatMap(({ external = [] }) => external);
  return [...new Set(entries.filter(({ key }) => key === 'location').map(({ value = '' }) => value))];
}

/**
 * Reports missing files with weights, and compares names, data types and shapes of an ONNX file with the configuration. ONNX
 * Runtime infers the sizes that the file leaves open, so only sizes that the file fixes are compared.
 */
export function onnxFaults(file: string, config: ModelConfig): ArtifactFault[] {
  const graph = readGraph(file);
  if (graph === undefined) {
    const hint = 'save it with torch.onnx.export(model, inputs, path), or copy it again';
    return [{ message: 'is not an ONNX file, or is truncated', hint }];
  }
  const missing = getExternal(graph).filter(
    (name) => !staysInside(name) || !fs.existsSync(path.join(path.dirname(file), name)),
  );
  const tensors = (['input', 'output'] as const).flatMap((kind) => {
    const all = graph[kind] ?? [];
    return all.length === 0 ? [] : (config[kind] ?? []).flatMap((tensor) => tensorFaults(kind, tensor, all, config));
  });
  return [
    ...missing.map((name) => ({
      message: `has its weights in ${name}, which is not in its version folder`,
      hint: `copy ${name} beside the file`,
    })),
    ...tensors,
    ...unnamedInputs(graph, config).map((name) => ({
      message: `has an input "${name}", which the configuration lacks`,
      hint: 'add it to the inputs of the configuration',
    })),
  ];
}

/** Inputs that no request would have. The controls of a sequence are inputs too, which Triton adds. */
function unnamedInputs({ input = [], initializer = [] }: OnnxGraph, config: ModelConfig): string[] {
  const names = (config.input ?? []).map(({ name }) => name);
  const hasOthers = names.some((name) => !input.some((one) => one.name === name));
  if (names.length === 0 || hasOthers || config.sequence_batching !== undefined) return [];
  const known = new Set([...names, ...initializer.map(({ name }) => name)]);
  return input.flatMap(({ name = '' }) => (known.has(name) ? [] : [name]));
}

function tensorFaults(
  kind: 'input' | 'output',
  { name, data_type: type, dims = [], reshape, allow_ragged_batch: isRagged }: TensorConfig,
  all: readonly ValueInfo[],
  { max_batch_size: most = 0 }: ModelConfig,
): ArtifactFault[] {
  const found = all.find((one) => one.name === name);
  if (found === undefined) {
    const names = all.map((one) => one.name).join(', ');
    return [{ message: `has no ${kind} "${name}"; it has ${names}`, hint: 'use the names of the file' }];
  }
  const { elemType = 0, shape } = found.type?.tensor ?? {};
  const dataType = `TYPE_${TYPES[elemType - 1] ?? '-'}`;
  const sizes = shape && (shape.dim ?? []).map(({ value = -1 }) => value);
  const own = reshape === undefined ? dims : (reshape.shape ?? []);
  const wanted = most > 0 ? [-1, ...own] : own;
  const isScalar = sizes?.length === 0 && own.every((size) => size === 1);
  // Without a shape in the file, only ONNX Runtime knows the shape. Ragged requests are joined along one axis.
  const fits =
    isScalar ||
    isRagged === true ||
    sizes === undefined ||
    (sizes.length === wanted.length && sizes.every((size, axis) => [-1, wanted[axis]].includes(size)));
  if (fits && (type === undefined || type === dataType)) return [];
  const isFixed = most > 0 && sizes !== undefined && sizes[0] !== -1;
  return [
    {
      message: `has ${dataType} [${sizes?.join(', ') ?? ''}] for the ${kind} "${name}", but the configuration has ${type} [${wanted.join(', ')}]`,
      hint: isFixed
        ? 'export it with a variable first axis (dynamic_axes), or set max_batch_size: 0 and give the whole shape in dims'
        : `set data_type and dims as in the file${most > 0 ? '; dims omits the batch axis, which is -1 here' : ''}`,
    },
  ];
}
