import type { input } from '@pulumi/kubernetes/types';
import { getRelease } from '../../src/model/triton-releases';
import { BUILDER_PORT, type BuilderOutput } from '../../src/publish/cluster/builder-output';
import { CONTAINER_SECURITY, POD_SECURITY } from './pod-security';
import { resourceRequirements, scheduling } from './scheduling';
import type { ServerSettings } from './settings';

/** NVIDIA's image, or a copy that keeps its name: `nvcr.io/nvidia/tritonserver:26.11-py3`. */
const PLACE = /^(.*\/)tritonserver:/;

/**
 * What the replicas run compiled models with: the release of Triton, which has the PyTorch of the release's PyTorch image,
 * and the compute capabilities of their GPUs: `26.11 7.5 8.6`, `26.11 cpu`. Undefined if one of them is not known.
 */
export function buildTarget({ image, gpusPerPod, gpuCapabilities }: ServerSettings): string | undefined {
  const release = PLACE.test(image) ? getRelease(image) : undefined;
  const processors = gpusPerPod === 0 ? ['cpu'] : [...gpuCapabilities].sort((a, b) => Number(a) - Number(b));
  return release === undefined || processors.length === 0 ? undefined : [release, ...processors].join(' ');
}

/**
 * The pod in which `npm run build -- --stack` compiles models: on a node of the replicas, in NVIDIA's PyTorch image of the
 * same release. It has no token and no credentials; where this package created the namespace, also no network.
 */
export function builder(settings: ServerSettings): string | undefined {
  const target = buildTarget(settings);
  if (target === undefined) return undefined;
  const [, place = ''] = PLACE.exec(settings.image) ?? [];
  const [release] = target.split(' ');
  const { nodeSelector, tolerations } = scheduling(settings);
  const { pod, name } = settings;
  const container: input.core.v1.Container = {
    name: 'builder',
    image: `${place}pytorch:${release}-py3`,
    workingDir: '/work',
    ports: [{ name: 'http', containerPort: BUILDER_PORT }],
    // The compilers of PyTorch keep files there. The root file system is read-only.
    env: ['HOME', 'TMPDIR', 'TORCHINDUCTOR_CACHE_DIR', 'TRITON_CACHE_DIR'].map((variable) => ({
      name: variable,
      value: '/work/tmp',
    })),
    resources: resourceRequirements(settings),
    securityContext: CONTAINER_SECURITY,
    volumeMounts: [{ name: 'work', mountPath: '/work' }],
  };
  const spec = {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    restartPolicy: 'Never',
    runtimeClassName: pod.runtimeClassName,
    imagePullSecrets: pod.imagePullSecrets.map((secret) => ({ name: secret })),
    nodeSelector,
    tolerations,
    securityContext: POD_SECURITY,
    containers: [container],
    volumes: [{ name: 'work', emptyDir: {} }],
  } satisfies input.core.v1.PodSpec;
  // Not the labels of the replicas, whose Service and budget would count it.
  const own = { 'app.kubernetes.io/name': 'triton-builder', 'app.kubernetes.io/instance': name };
  return JSON.stringify({ target, labels: own, spec } satisfies BuilderOutput);
}
