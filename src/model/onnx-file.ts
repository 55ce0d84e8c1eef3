import { promises as fs } from 'node:fs';
import protobuf from 'protobufjs/light';
import { read } from './torch-script';

/** An input or output of the graph. */
export interface OnnxTensor {
  name: string;
  /** Data type as in a configuration, such as TYPE_FP32; undefined if Triton has no such tensor type. */
  dataType: string | undefined;
  /** -1 for a variable size; undefined if the file has no shape. */
  shape: number[] | undefined;
}

export interface OnnxGraph {
  inputs: OnnxTensor[];
  /** Names of tensors with a value in the file. A request may omit inputs with such a value. */
  initializers: ReadonlySet<string>;
  outputs: OnnxTensor[];
  /** File with weights, relative to the folder of the ONNX file -> least size in bytes. */
  external: ReadonlyMap<string, number>;
}

/** Field numbers of onnx.proto: ModelProto.graph, fields of GraphProto, fields of TensorProto. */
const FIELD = { graph: 7, initializer: 5, input: 11, output: 12, tensorName: 8, externalData: 13 };
const BYTES = 2;
const WINDOW_BYTES = 64 * 1024;
/** A name or tensor description has a few hundred bytes. The limit bounds what we read of a damaged file. */
const MOST_BYTES = 2 ** 20;

/** TensorProto.DataType -> Triton's name. Types after BF16 (16) have none. */
const ONNX_TYPES: Readonly<Record<number, string>> = {
  1: 'TYPE_FP32',
  2: 'TYPE_UINT8',
  3: 'TYPE_INT8',
  4: 'TYPE_UINT16',
  5: 'TYPE_INT16',
  6: 'TYPE_INT32',
  7: 'TYPE_INT64',
  8: 'TYPE_STRING',
  9: 'TYPE_BOOL',
  10: 'TYPE_FP16',
  11: 'TYPE_FP64',
  12: 'TYPE_UINT32',
  13: 'TYPE_UINT64',
  16: 'TYPE_BF16',
};

const root = protobuf.Root.fromJSON({
  nested: {
    ValueInfo: { fields: { name: { type: 'string', id: 1 }, type: { type: 'Type', id: 2 } } },
    Type: { fields: { tensor: { type: 'Tensor', id: 1 } } },
    Tensor: { fields: { elemType: { type: 'int32', id: 1 }, shape: { type: 'Shape', id: 2 } } },
    Shape: { fields: { dim: { rule: 'repeated', type: 'Dim', id: 1 } } },
    Dim: { fields: { value: { type: 'int64', id: 1 } } },
    Entry: { fields: { key: { type: 'string', id: 1 }, value: { type: 'string', id: 2 } } },
  },
});
const valueInfoType = root.lookupType('ValueInfo');
const entryType = root.lookupType('Entry');

interface ValueInfo {
  name?: string;
  type?: { tensor?: { elemType?: number; shape?: { dim?: { value?: number }[] } } };
}

/**
 * Reads the inputs and outputs of an ONNX file. Nodes and weights are skipped, because the file may have 2 GB.
 * @returns undefined if the file is not ONNX
 */
export async function readOnnxGraph(path: string): Promise<OnnxGraph | undefined> {
  const file = await fs.open(path, 'r');
  try {
    const window = new Window(file);
    const { size } = await file.stat();
    for await (const { id, type, start, end } of fields(window, 0, size)) {
      if (id === FIELD.graph && type === BYTES) return await readGraph(window, start, end);
    }
    return undefined;
  } catch (error) {
    if (error instanceof MalformedOnnxError) return undefined;
    throw error;
  } finally {
    await file.close();
  }
}

async function readGraph(window: Window, from: number, to: number): Promise<OnnxGraph> {
  const inputs: OnnxTensor[] = [];
  const outputs: OnnxTensor[] = [];
  const initializers = new Set<string>();
  const external = new Map<string, number>();
  for await (const { id, start, end } of fields(window, from, to)) {
    if (id === FIELD.input) inputs.push(readTensor(await window.read(start, end)));
    else if (id === FIELD.output) outputs.push(readTensor(await window.read(start, end)));
    else if (id === FIELD.initializer) {
      const place = new Map<string, string>();
      for await (const part of fields(window, start, end)) {
        if (part.id === FIELD.tensorName) {
          initializers.add((await window.read(part.start, part.end)).toString('utf8'));
        } else if (part.id === FIELD.externalData) {
          const bytes = await window.read(part.start, part.end);
          const { key = '', value = '' } = wellFormed(
            () => entryType.decode(bytes) as { key?: string; value?: string },
          );
          place.set(key, value);
        }
      }
      const file = place.get('location');
      const least = Number(place.get('offset') ?? 0) + Number(place.get('length') ?? 0);
      if (file !== undefined) external.set(file, Math.max(least, external.get(file) ?? 0));
    }
  }
  return { inputs, initializers, outputs, external };
}

function readTensor(bytes: Buffer): OnnxTensor {
  const { name = '', type = {} } = wellFormed(
    () => valueInfoType.toObject(valueInfoType.decode(bytes), { longs: Number }) as ValueInfo,
  );
  const { elemType = 0, shape } = type.tensor ?? {};
  return {
    name,
    dataType: ONNX_TYPES[elemType],
    shape: shape === undefined ? undefined : (shape.dim ?? []).map(({ value }) => value ?? -1),
  };
}

/** The bytes are not protocol buffers. */
class MalformedOnnxError extends Error {}

function wellFormed<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw new MalformedOnnxError('the file is not ONNX', { cause });
  }
}

/** A buffer with the part of a file that was read last. */
class Window {
  private start = 0;
  private bytes: Buffer = Buffer.alloc(0);

  constructor(private readonly file: fs.FileHandle) {}

  /** Reads up to `end`, or to the end of the file. */
  async read(start: number, end: number): Promise<Buffer> {
    if (end - start > MOST_BYTES) throw new MalformedOnnxError(`${end - start} bytes for one name or description`);
    if (start < this.start || end > this.start + this.bytes.length) {
      this.bytes = await read(this.file, start, Math.max(end - start, WINDOW_BYTES));
      this.start = start;
    }
    return this.bytes.subarray(start - this.start, end - this.start);
  }
}

interface Field {
  id: number;
  type: number;
  /** Position of the content. */
  start: number;
  end: number;
}

/** Yields the fields of a message. Reads only tags and lengths. */
async function* fields(window: Window, from: number, to: number): AsyncGenerator<Field> {
  for (let at = from; at < to;) {
    const head = protobuf.Reader.create(await window.read(at, Math.min(at + 20, to)));
    const field = wellFormed(() => {
      const tag = head.uint32();
      const [id, type] = [tag >>> 3, tag & 7];
      const length = type === BYTES ? head.uint32() : 0;
      const start = at + head.pos;
      if (type !== BYTES) head.skipType(type);
      return { id, type, start, end: type === BYTES ? start + length : at + head.pos };
    });
    if (field.id === 0 || field.end > to) throw new MalformedOnnxError('a field without number, or beyond the end');
    yield field;
    at = field.end;
  }
}
