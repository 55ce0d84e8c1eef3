import type { Step } from '../progress';
import { ensureGoProgram } from './go';

/** The parts of a Kubernetes control plane, and KWOK, which plays its nodes. For tests; they listen on loopback. */
export interface KubernetesPrograms {
  apiServer: string;
  etcd: string;
  kwok: string;
}

/** Builds, one after the other, what is not on PATH in the pinned version. */
export async function ensureKubernetes(step?: Step): Promise<KubernetesPrograms> {
  return {
    apiServer: await ensureApiServer(step),
    etcd: await ensureEtcd(step),
    kwok: await ensureKwok(step),
  };
}

function ensureApiServer(step: Step | undefined): Promise<string> {
  return ensureGoProgram(
    {
      name: 'kube-apiserver',
      pins: 'kubernetes',
      module: 'k8s.io/kubernetes',
      package: 'k8s.io/kubernetes/cmd/kube-apiserver',
      // It takes its default feature gates from this version.
      ldflags: (version) => `-X k8s.io/component-base/version.gitVersion=${version}`,
      versionArguments: ['--version'],
    },
    step,
  );
}

/** In the module graph of Kubernetes, so that what both use is compiled once. */
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
