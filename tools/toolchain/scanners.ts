import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';
import { ensureLockedPackages, type PythonEnvironment } from '../../src/install/python';

/** kube-score: does a manifest do what experience teaches. Needs Go, unless the pinned version is on PATH. */
export function ensureKubeScore(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'kube-score',
      pins: 'kube-score',
      module: 'github.com/zegl/kube-score',
      package: 'github.com/zegl/kube-score/cmd/kube-score',
      ldflags: (version) => `-X main.version=${version}`,
      versionArguments: ['version'],
    },
    step,
  );
}

/** kubeconform: is a manifest one by Kubernetes' own definitions. Needs Go, unless the pinned version is on PATH. */
export function ensureKubeconform(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'kubeconform',
      pins: 'kubeconform',
      module: 'github.com/yannh/kubeconform',
      package: 'github.com/yannh/kubeconform/cmd/kubeconform',
      ldflags: (version) => `-X main.version=${version}`,
      versionArguments: ['-v'],
    },
    step,
  );
}

/** How to run checkov. */
export interface Checkov {
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Folder of its packages. */
  packages: string;
}

/** checkov: are a plan and manifests safe by what AWS, CIS and others recommend. Its packages are apart from ours. */
export async function ensureCheckov(python: PythonEnvironment, step?: Step): Promise<Checkov> {
  const packages = await ensureLockedPackages('checkov', python, step);
  return {
    command: python.python,
    args: ['-m', 'checkov.main'],
    // It would look for a newer version of itself.
    env: { ...process.env, PYTHONPATH: packages, CHECKOV_NO_UPDATE_CHECK: 'true', LOG_LEVEL: 'ERROR' },
    packages,
  };
}
