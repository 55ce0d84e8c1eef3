import { guardFlags } from '../../../../src/triton/control-key';
import { changed, resource, withUnknown, type Cases } from './case';

const DEPLOYMENT = 'kubernetes:apps/v1:Deployment';
const PROBE = { httpGet: { path: '/v2/health/ready', port: 8000 } };
/** A server on one GPU with all that is asked for. */
export const SERVER = {
  metadata: { namespace: 'triton' },
  spec: {
    replicas: 2,
    template: {
      metadata: { labels: { app: 'triton', tier: 'gpu' } },
      spec: {
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 90,
        tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
        volumes: [{ name: 'models', emptyDir: { sizeLimit: '20Gi' } }],
        containers: [
          {
            name: 'triton',
            image: 'registry.example/tritonserver:1.2.3',
            env: [{ name: 'AWS_SECRET_ACCESS_KEY', valueFrom: { secretKeyRef: { name: 's3', key: 'secret' } } }],
            ports: [{ containerPort: 8000 }],
            startupProbe: PROBE,
            readinessProbe: PROBE,
            livenessProbe: PROBE,
            resources: {
              requests: { cpu: '2', memory: '8Gi', 'nvidia.com/gpu': 1 },
              limits: { memory: '8Gi', 'nvidia.com/gpu': '1' },
            },
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
      },
    },
  },
};

const POD = 'spec.template.spec';
const CONTAINER = `${POD}.containers.0`;
const IN_CONTAINER = `${DEPLOYMENT} "triton": ${POD}.containers[0]`;
const deployment = (path?: string, to?: unknown) =>
  resource(DEPLOYMENT, 'triton', path === undefined ? SERVER : changed(SERVER, path, to));
/** The same on a processor, without the word GPU in it. */
const onCpu = (path: string, to: unknown) =>
  resource(
    DEPLOYMENT,
    'triton',
    changed(changed(SERVER, `${CONTAINER}.resources`, { limits: { memory: '1Gi' } }), path, to),
  );
const OPEN = ['http-restricted-api', 'grpc-restricted-protocol'].map(
  (flag) =>
    `${DEPLOYMENT} "triton": every client can use its model control API; add --${flag}=model-repository,...:HEADER=KEY.`,
);
const EXPLICIT = '--model-control-mode=explicit';
const fails = (path: string, to: unknown, ...says: string[]) => ({ stack: [deployment(path, to)], says });

export const podCases: Cases = {
  'pod-images-pinned': {
    passes: {
      'a version': [deployment()],
      'a digest, at a registry with a port': [
        deployment(`${CONTAINER}.image`, `localhost:5000/triton@sha256:${'a'.repeat(64)}`),
      ],
      'not known yet': [deployment(), resource(DEPLOYMENT, 'triton', withUnknown({}, 'spec'))],
    },
    fails: {
      latest: fails(
        `${CONTAINER}.image`,
        'tritonserver:latest',
        `${IN_CONTAINER}.image is "tritonserver:latest"; add the tag of a version, or a digest.`,
      ),
      'no tag, at a registry with a port': fails(
        `${CONTAINER}.image`,
        'localhost:5000/triton',
        `${IN_CONTAINER}.image is "localhost:5000/triton"; add the tag of a version, or a digest.`,
      ),
      'of what runs before': fails(
        `${POD}.initContainers`,
        [{ image: 'busybox' }],
        `${DEPLOYMENT} "triton": ${POD}.initContainers[0].image is "busybox"; add the tag of a version, or a digest.`,
      ),
    },
  },
  'pod-probes': {
    passes: { 'all three': [deployment()], 'two without a GPU': [onCpu(`${CONTAINER}.startupProbe`, undefined)] },
    fails: {
      'no start': fails(`${CONTAINER}.startupProbe`, undefined, `${IN_CONTAINER}.startupProbe is not set; add it.`),
      'no readiness': fails(
        `${CONTAINER}.readinessProbe`,
        undefined,
        `${IN_CONTAINER}.readinessProbe is not set; add it.`,
      ),
      'no life': fails(`${CONTAINER}.livenessProbe`, undefined, `${IN_CONTAINER}.livenessProbe is not set; add it.`),
    },
  },
  'pod-resources': {
    passes: { all: [deployment()] },
    fails: {
      none: fails(
        `${CONTAINER}.resources`,
        {},
        `${IN_CONTAINER}.resources.requests.cpu is not set; set it.`,
        `${IN_CONTAINER}.resources.requests.memory is not set; set it.`,
        `${IN_CONTAINER}.resources.limits.memory is not set; set it.`,
      ),
    },
  },
  'pod-no-plain-secrets': {
    passes: { 'from a Secret': [deployment()] },
    fails: {
      'in the text, and not told here': fails(
        `${CONTAINER}.env`,
        [{ name: 'AWS_SECRET_ACCESS_KEY', value: 'hush' }],
        `${DEPLOYMENT} "triton": AWS_SECRET_ACCESS_KEY is set in plain text; read it from a Secret with valueFrom.secretKeyRef.`,
      ),
    },
  },
  'triton-control-guarded': {
    passes: {
      guarded: [deployment(`${CONTAINER}.args`, [EXPLICIT, ...guardFlags('$(KEY)')])],
      'models are loaded at the start only': [deployment(`${CONTAINER}.args`, ['--model-control-mode=none'])],
      'not known yet': [deployment(), resource(DEPLOYMENT, 'triton', withUnknown({}, 'spec'))],
    },
    fails: {
      'without a key': fails(`${CONTAINER}.args`, [EXPLICIT], ...OPEN),
      'a key for other requests': fails(
        `${CONTAINER}.args`,
        [EXPLICIT, ...guardFlags('$(KEY)').map((flag) => flag.replace('model-repository,', ''))],
        ...OPEN,
      ),
    },
  },
  'pod-restricted': {
    passes: {
      restricted: [deployment()],
      "the nodes' own": [
        resource('kubernetes:apps/v1:DaemonSet', 'nvidia-device-plugin', {
          metadata: { namespace: 'kube-system' },
          spec: { template: { spec: { containers: [{ securityContext: { privileged: true } }] } } },
        }),
      ],
    },
    fails: {
      privileged: fails(
        `${CONTAINER}.securityContext.privileged`,
        true,
        `${IN_CONTAINER}.securityContext.privileged is true; remove it.`,
      ),
      'may become root': fails(
        `${CONTAINER}.securityContext.allowPrivilegeEscalation`,
        undefined,
        `${IN_CONTAINER}.securityContext.allowPrivilegeEscalation is not set; set it to false.`,
      ),
      'is root': fails(
        `${POD}.securityContext.runAsUser`,
        0,
        `${DEPLOYMENT} "triton": ${POD}.securityContext.runAsUser is 0; use a user other than root.`,
      ),
      'may be root, in one container': fails(
        `${CONTAINER}.securityContext.runAsNonRoot`,
        false,
        `${IN_CONTAINER}.securityContext.runAsNonRoot is false; set it to true.`,
      ),
      'any system call': fails(
        `${POD}.securityContext.seccompProfile`,
        { type: 'Unconfined' },
        `${DEPLOYMENT} "triton": ${POD}.securityContext.seccompProfile.type is "Unconfined"; set it to RuntimeDefault.`,
      ),
      capabilities: fails(
        `${CONTAINER}.securityContext.capabilities`,
        { drop: ['NET_RAW'], add: ['SYS_ADMIN'] },
        `${IN_CONTAINER}.securityContext.capabilities.drop is ["NET_RAW"]; set it to ["ALL"].`,
        `${IN_CONTAINER}.securityContext.capabilities.add[0] is "SYS_ADMIN"; remove it.`,
      ),
      'the network of the host': fails(
        `${POD}.hostNetwork`,
        true,
        `${DEPLOYMENT} "triton": ${POD}.hostNetwork is true; remove it.`,
      ),
      'files of the host': fails(
        `${POD}.volumes`,
        [{ name: 'x', hostPath: { path: '/' } }],
        `${DEPLOYMENT} "triton": ${POD}.volumes[0].hostPath is {"path":"/"}; use an emptyDir or a PersistentVolumeClaim.`,
      ),
      'a port of the host': fails(
        `${CONTAINER}.ports`,
        [{ containerPort: 8000, hostPort: 8000 }],
        `${IN_CONTAINER}.ports[0].hostPort is 8000; remove it.`,
      ),
    },
  },
  'pod-no-api-token': {
    passes: { none: [deployment()] },
    fails: {
      'by default': fails(
        `${POD}.automountServiceAccountToken`,
        undefined,
        `${DEPLOYMENT} "triton": ${POD}.automountServiceAccountToken is not set; set it to false.`,
      ),
    },
  },
  'gpu-pod-limits': {
    passes: { 'as in requests': [deployment()], 'no GPU': [onCpu(`${CONTAINER}.env`, [])] },
    fails: {
      'in requests only': fails(
        `${CONTAINER}.resources.limits`,
        { memory: '8Gi' },
        `${IN_CONTAINER}.resources.limits.nvidia.com/gpu is not set; set it to 1, as in requests.`,
      ),
      'no memory': fails(
        `${CONTAINER}.resources.limits`,
        { 'nvidia.com/gpu': 1 },
        `${IN_CONTAINER}.resources.limits.memory is not set; set it, because other pods use the memory of the node too.`,
      ),
    },
  },
  'gpu-pod-tolerates': {
    passes: {
      'the taint': [deployment()],
      everything: [deployment(`${POD}.tolerations`, [{ operator: 'Exists' }])],
      'nothing, without a GPU': [onCpu(`${POD}.tolerations`, [])],
    },
    fails: {
      nothing: fails(
        `${POD}.tolerations`,
        undefined,
        `${DEPLOYMENT} "triton": ${POD}.tolerations is not set; add { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }.`,
      ),
      'another taint': fails(
        `${POD}.tolerations`,
        [{ key: 'spot' }],
        `${DEPLOYMENT} "triton": ${POD}.tolerations is [{"key":"spot"}]; add { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }.`,
      ),
    },
  },
  'gpu-pod-drains': {
    passes: {
      'a minute and a half': [deployment()],
      'the default': [deployment(`${POD}.terminationGracePeriodSeconds`, undefined)],
    },
    fails: {
      'no time': fails(
        `${POD}.terminationGracePeriodSeconds`,
        0,
        `${DEPLOYMENT} "triton": ${POD}.terminationGracePeriodSeconds is 0; set it to the total time of the preStop hook and the exit.`,
      ),
    },
  },
};
