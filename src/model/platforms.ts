import type { ModelConfig } from './model-config';

/** Triton's requirements for the models of one platform or backend. */
export interface PlatformFacts {
  /** Name in the READY table: Triton's platform name, or the backend if there is no platform. */
  label: string;
  /** The backend that serves the platform; undefined for an ensemble, which Triton runs itself. */
  backend?: string;
  /** The artifact in each version folder; undefined if only the backend knows. */
  artifact?: { name: string; kind: 'file' | 'directory' | 'either' };
  /** Whether Triton reads inputs and outputs that the configuration omits from the artifact. */
  completesTensors: boolean;
}

interface Row {
  backend: string;
  /** Name of the artifact. */
  name: string;
  kind: 'file' | 'directory' | 'either';
  completesTensors: boolean;
}

const withLabels = (rows: Record<string, Row>): Record<string, PlatformFacts> =>
  Object.fromEntries(
    Object.entries(rows).map(([label, { backend, name, kind, completesTensors }]) => [
      label,
      { label, backend, artifact: { name, kind }, completesTensors },
    ]),
  );

/** Triton's platforms with their file names, by the value of `platform`, from core/src/constants.h of Triton. */
export const PLATFORMS: Readonly<Record<string, PlatformFacts>> = {
  ...withLabels({
    pytorch_libtorch: { backend: 'pytorch', name: 'model.pt', kind: 'file', completesTensors: false },
    // Compiled ahead of time by torch.export and Inductor; supported by servers since 2026.
    torch_aoti: { backend: 'pytorch', name: 'model.pt2', kind: 'file', completesTensors: false },
    tensorrt_plan: { backend: 'tensorrt', name: 'model.plan', kind: 'file', completesTensors: true },
    // A directory if the weights are in files of their own beside the graph.
    onnxruntime_onnx: { backend: 'onnxruntime', name: 'model.onnx', kind: 'either', completesTensors: true },
    tensorflow_savedmodel: {
      backend: 'tensorflow',
      name: 'model.savedmodel',
      kind: 'directory',
      completesTensors: true,
    },
    tensorflow_graphdef: { backend: 'tensorflow', name: 'model.graphdef', kind: 'file', completesTensors: false },
  }),
  ensemble: { label: 'ensemble', completesTensors: false },
};

/** Backends that need no platform, by the value of `backend`. Any other name is a user's own backend. */
export const BACKENDS: Readonly<Record<string, PlatformFacts | undefined>> = {
  pytorch: PLATFORMS['pytorch_libtorch'],
  tensorrt: PLATFORMS['tensorrt_plan'],
  onnxruntime: PLATFORMS['onnxruntime_onnx'],
  ...withLabels({
    python: { backend: 'python', name: 'model.py', kind: 'file', completesTensors: true },
    openvino: { backend: 'openvino', name: 'model.xml', kind: 'file', completesTensors: true },
  }),
};

/**
 * Returns the facts for a model, or undefined if its configuration names no known platform.
 * A configuration without platform and backend is completed as Triton does, by the name of a file in a version folder.
 *
 * @param files names in the version folders, for a configuration without platform and backend
 */
export function platformFacts(config: ModelConfig, files: ReadonlySet<string>): PlatformFacts | undefined {
  const { platform = '', backend = '', default_model_filename: filename = '' } = config;
  if (platform !== '') {
    // Triton accepts any platform together with a user's own backend.
    return lookUp(PLATFORMS, platform) ?? (backend === '' ? undefined : ownBackend(platform, backend));
  }
  if (backend !== '') return lookUp(BACKENDS, backend) ?? ownBackend(backend, backend);
  return [...Object.values(PLATFORMS), ...Object.values(BACKENDS)].find((facts) => {
    const artifact = facts?.artifact;
    if (artifact === undefined) return false;
    return filename === '' ? files.has(artifact.name) : filename === artifact.name;
  });
}

const ownBackend = (label: string, backend: string): PlatformFacts => ({ label, backend, completesTensors: true });

const lookUp = (table: Readonly<Record<string, PlatformFacts | undefined>>, name: string): PlatformFacts | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;
