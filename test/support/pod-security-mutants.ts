import type { V1Container, V1Pod, V1PodSpec, V1SecurityContext } from '@kubernetes/client-node';

/** A pod that violates one control of the PodSecurity profile "restricted", and the API server's reason. */
export interface Mutant {
  control: string;
  /** Part of the reason that the API server gives. */
  says: string;
  /** Changes a copy of the pod. */
  mutate(pod: V1Pod): void;
}

const spec = (pod: V1Pod): V1PodSpec => pod.spec as V1PodSpec;
const container = (pod: V1Pod): V1Container => spec(pod).containers[0] as V1Container;
const context = (pod: V1Pod): V1SecurityContext => (container(pod).securityContext ??= {});
const addVolume = (pod: V1Pod, volume: object): void => {
  (spec(pod).volumes ??= []).push({ name: 'mutant', ...volume });
};

/** All controls of the profiles "baseline" and "restricted" for pods on Linux, in the order of the documentation. */
export const MUTANTS: readonly Mutant[] = [
  {
    control: 'host process',
    says: 'hostProcess',
    mutate: (pod) => {
      // hostProcess is valid only with hostNetwork, and for all containers.
      spec(pod).hostNetwork = true;
      (spec(pod).securityContext ??= {}).windowsOptions = { hostProcess: true };
    },
  },
  { control: 'host network', says: 'host namespaces', mutate: (pod) => (spec(pod).hostNetwork = true) },
  { control: 'host process ids', says: 'host namespaces', mutate: (pod) => (spec(pod).hostPID = true) },
  { control: 'host inter-process', says: 'host namespaces', mutate: (pod) => (spec(pod).hostIPC = true) },
  {
    control: 'privileged',
    says: 'privileged',
    mutate: (pod) => Object.assign(context(pod), { privileged: true, allowPrivilegeEscalation: true }),
  },
  {
    control: 'added capabilities',
    says: 'unrestricted capabilities',
    mutate: (pod) => (context(pod).capabilities = { drop: ['ALL'], add: ['SYS_PTRACE'] }),
  },
  {
    control: 'kept capabilities',
    says: 'unrestricted capabilities',
    mutate: (pod) => delete context(pod).capabilities,
  },
  { control: 'host path', says: 'hostPath', mutate: (pod) => addVolume(pod, { hostPath: { path: '/' } }) },
  {
    control: 'host port',
    says: 'hostPort',
    mutate: (pod) => container(pod).ports?.forEach((port) => (port.hostPort = port.containerPort)),
  },
  {
    control: 'host of a probe',
    says: 'probe or lifecycle host',
    mutate: (pod) => Object.assign(container(pod).livenessProbe?.httpGet ?? {}, { host: '169.254.169.254' }),
  },
  { control: 'AppArmor', says: 'AppArmor', mutate: (pod) => (context(pod).appArmorProfile = { type: 'Unconfined' }) },
  { control: 'SELinux', says: 'seLinuxOptions', mutate: (pod) => (context(pod).seLinuxOptions = { type: 'spc_t' }) },
  {
    control: '/proc mount',
    says: 'procMount',
    mutate: (pod) => {
      // Unmasked is valid only with hostUsers: false.
      spec(pod).hostUsers = false;
      context(pod).procMount = 'Unmasked';
    },
  },
  {
    control: 'sysctls',
    says: 'forbidden sysctls',
    mutate: (pod) => ((spec(pod).securityContext ??= {}).sysctls = [{ name: 'kernel.msgmax', value: '1' }]),
  },
  {
    control: 'kind of volume',
    says: 'restricted volume types',
    mutate: (pod) => addVolume(pod, { nfs: { server: 'server', path: '/' } }),
  },
  {
    control: 'privilege escalation',
    says: 'allowPrivilegeEscalation',
    mutate: (pod) => (context(pod).allowPrivilegeEscalation = true),
  },
  {
    control: 'privilege escalation by default',
    says: 'allowPrivilegeEscalation',
    mutate: (pod) => delete context(pod).allowPrivilegeEscalation,
  },
  { control: 'root allowed', says: 'runAsNonRoot', mutate: (pod) => (context(pod).runAsNonRoot = false) },
  { control: 'root', says: 'runAsUser=0', mutate: (pod) => (context(pod).runAsUser = 0) },
  {
    control: 'no seccomp profile',
    says: 'seccompProfile',
    mutate: (pod) => {
      delete context(pod).seccompProfile;
      delete spec(pod).securityContext?.seccompProfile;
    },
  },
  {
    control: 'seccomp switched off',
    says: 'seccompProfile',
    mutate: (pod) => (context(pod).seccompProfile = { type: 'Unconfined' }),
  },
];
