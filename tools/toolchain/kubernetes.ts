import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Step } from '../../src/cli/progress';
import { downloadModule, ensureGoProgram } from './go';

/** Programs of a Kubernetes control plane, and KWOK, which simulates nodes. For tests; they listen on loopback. */
export interface KubernetesPrograms {
  apiServer: string;
  etcd: string;
  kwok: string;
}

/** The further programs of a complete control plane: controllers that reconcile objects, and a scheduler. */
export interface ControlPlanePrograms extends KubernetesPrograms {
  controllerManager: string;
  scheduler: string;
}

/** Builds the programs that are not on PATH in the pinned version, one after the other. */
export async function ensureKubernetes(step?: Step): Promise<KubernetesPrograms> {
  return {
    apiServer: await ensureKubernetesProgram('kube-apiserver', step),
    etcd: await ensureEtcd(step),
    kwok: await ensureKwok(step),
  };
}

/** The same with the further programs of a control plane. */
export async function ensureControlPlane(step?: Step): Promise<ControlPlanePrograms> {
  return {
    ...(await ensureKubernetes(step)),
    controllerManager: await ensureKubernetesProgram('kube-controller-manager', step),
    scheduler: await ensureKubernetesProgram('kube-scheduler', step),
  };
}

function ensureKubernetesProgram(name: string, step: Step | undefined): Promise<string> {
  return ensureGoProgram(
    {
      name,
      pins: 'kubernetes',
      module: 'k8s.io/kubernetes',
      package: `k8s.io/kubernetes/cmd/${name}`,
      // The programs derive their default feature gates from this version.
      ldflags: (version) => `-X k8s.io/component-base/version.gitVersion=${version}`,
      versionArguments: ['--version'],
    },
    step,
  );
}

/** Built with the module graph of Kubernetes, so that common dependencies are compiled once. */
function ensureEtcd(step: Step | undefined): Promise<string> {
  return ensureGoProgram(
    {
      name: 'etcd',
      pins: 'kubernetes',
      module: 'go.etcd.io/etcd/server/v3',
      package: 'go.etcd.io/etcd/server/v3',
      versionArguments: ['--version'],
    },
    step,
  );
}

function ensureKwok(step: Step | undefined): Promise<string> {
  return ensureGoProgram(
    {
      name: 'kwok',
      pins: 'kwok',
      module: 'sigs.k8s.io/kwok',
      package: 'sigs.k8s.io/kwok/cmd/kwok',
      ldflags: (version) => `-X sigs.k8s.io/kwok/pkg/consts.Version=${version}`,
      versionArguments: ['--version'],
    },
    step,
  );
}

const KARPENTER = { pins: 'karpenter', module: 'sigs.k8s.io/karpenter' };

/** Karpenter with the cloud provider for KWOK nodes, extended by capacity that can be exhausted. */
export function ensureKarpenter(step?: Step): Promise<string> {
  return ensureGoProgram({ name: 'karpenter-kwok', ...KARPENTER, package: '.' }, step);
}

/** Files with the definitions of Karpenter's kinds, such as NodePool. Nothing is built for them. */
export async function karpenterDefinitions(): Promise<string[]> {
  const { directory } = await downloadModule(KARPENTER.pins, KARPENTER.module);
  const folders = [join(directory, 'pkg', 'apis', 'crds'), join(directory, 'kwok', 'apis', 'crds')];
  return folders.flatMap((folder) => readdirSync(folder).map((file) => join(folder, file)));
}
