import type { ModelConfig } from './model-config';

/** Triton's requirements for the models of one platform or backend. */
export interface PlatformFacts {
  /** Name in the READY table: Triton's platform name, or the backend if there is no platform. */
  label: string;
  /** The backend that serves the platform; undefined for an ensemble, which Triton runs itself. */
  backend?: string;
  /** The artifact in each version folder; undefined if only the backend knows. */
  artifact?: { name: string; kind: 'file' | 'either' };
  /** Whether Triton reads inputs and outputs that the configuration omits from the artifact. */
  completesTensors: boolean;
}

const facts = (
  label: string,
  backend: string,
  name: string,
  completesTensors: boolean,
  kind: 'file' | 'either' = 'file',
): PlatformFacts => ({ label, backend, artifact: { name, kind }, completesTensors });

const PYTORCH = facts('pytorch_libtorch', 'pytorch', 'model.pt', false);
const TENSORRT = facts('tensorrt_plan', 'tensorrt', 'model.plan', true);
// A directory if the weights are in files of their own beside the graph.
const ONNX = facts('onnxruntime_onnx', 'onnxruntime', 'model.onnx', true, 'either');

/** Platforms by the value of `platform`, from core/src/constants.h of Triton. Its backend for TensorFlow ended with 25.02. */
export const PLATFORMS: Readonly<Record<string, PlatformFacts>> = {
  pytorch_libtorch: PYTORCH,
  // Compiled ahead of time by torch.export and Inductor; supported by servers since 2026.
  torch_aoti: facts('torch_aoti', 'pytorch', 'model.pt2', false),
  tensorrt_plan: TENSORRT,
  onnxruntime_onnx: ONNX,
  ensemble: { label: 'ensemble', completesTensors: false },
};

/** Backends that need no platform, by the value of `backend`. Any other name is a user's own backend. */
export const BACKENDS: Readonly<Record<string, PlatformFacts>> = {
  pytorch: PYTORCH,
  tensorrt: TENSORRT,
  onnxruntime: ONNX,
  python: facts('python', 'python', 'model.py', true),
  openvino: facts('openvino', 'openvino', 'model.xml', true),
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
  return [...Object.values(PLATFORMS), ...Object.values(BACKENDS)].find(({ artifact }) => {
    if (artifact === undefined) return false;
    return filename === '' ? files.has(artifact.name) : filename === artifact.name;
  });
}

const ownBackend = (label: string, backend: string): PlatformFacts => ({ label, backend, completesTensors: true });

const lookUp = (table: Readonly<Record<string, PlatformFacts>>, name: string): PlatformFacts | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;
