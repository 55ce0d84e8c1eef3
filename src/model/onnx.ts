import fs from 'node:fs';
import path from 'node:path';
import protobuf from 'protobufjs/light';
import { staysInside } from './paths';
import type { ArtifactFault } from './torch-files';

/** Files beyond this size are not read. Large models have their weights in files beside the graph. */
const MOST_BYTES = 2 ** 29;

/** The parts of onnx.proto that name files with weights; protobufjs skips the rest. */
const modelType = protobuf.Root.fromJSON({
  nested: {
    Model: { fields: { graph: { type: 'Graph', id: 7 } } },
    Graph: { fields: { initializer: { rule: 'repeated', type: 'Initializer', id: 5 } } },
    Initializer: { fields: { external: { rule: 'repeated', type: 'Entry', id: 13 } } },
    Entry: { fields: { key: { type: 'string', id: 1 }, value: { type: 'string', id: 2 } } },
  },
}).lookupType('Model');

interface Graph {
  initializer?: { external?: { key?: string; value?: string }[] }[];
}

/**
 * The files with weights of an ONNX file, relative to its folder; none for a file that is too large.
 * @returns undefined if the file is not ONNX
 */
export function externalFiles(file: string): string[] | undefined {
  if (fs.statSync(file).size > MOST_BYTES) return [];
  let graph: Graph | undefined;
  try {
    graph = (modelType.toObject(modelType.decode(fs.readFileSync(file))) as { graph?: Graph }).graph;
  } catch {
    return undefined;
  }
  const entries = graph?.initializer?.flatMap(({ external = [] }) => external) ?? [];
  const names = entries.filter(({ key }) => key === 'location').map(({ value = '' }) => value);
  return graph === undefined ? undefined : [...new Set(names)];
}

/** Reports a file that is not ONNX, and missing files with weights. Triton compares the tensors with the configuration. */
export function onnxFaults(file: string): ArtifactFault[] {
  const names = externalFiles(file);
  if (names === undefined) {
    const hint = 'save it with torch.onnx.export(model, inputs, path), or copy it again';
    return [{ message: 'is not an ONNX file, or is truncated', hint }];
  }
  return names
    .filter((name) => !staysInside(name) || !fs.existsSync(path.join(path.dirname(file), name)))
    .map((name) => ({
      message: `has its weights in ${name}, which is not in its version folder`,
      hint: `copy ${name} beside the file`,
    }));
}
