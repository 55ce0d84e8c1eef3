import { chmodSync, copyFileSync, existsSync, linkSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { Step } from '../../src/cli/progress';
import { downloadModule, ensureGoProgram } from './go';
import { findOnPath } from './on-path';

/** The Pulumi CLI for tests. Users who deploy have their own installation. */
export function ensurePulumi(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'pulumi',
      pins: 'pulumi',
      module: 'github.com/pulumi/pulumi/pkg/v3',
      package: 'github.com/pulumi/pulumi/pkg/v3/cmd/pulumi',
      ldflags: (version) => `-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=${version}`,
      versionArguments: ['version'],
    },
    step,
  );
}

/** The language host, which runs Pulumi programs in TypeScript. An installed Pulumi includes it. */
export async function ensureLanguageHost(pulumi: string, step?: Step): Promise<string> {
  if (pulumi === 'pulumi' && findOnPath(LANGUAGE_HOST) !== undefined) return LANGUAGE_HOST;
  return ensureGoProgram(
    {
      name: LANGUAGE_HOST,
      pins: LANGUAGE_HOST,
      module: 'github.com/pulumi/pulumi/sdk/nodejs/cmd/pulumi-language-nodejs/v3',
      package: 'github.com/pulumi/pulumi/sdk/nodejs/cmd/pulumi-language-nodejs/v3',
    },
    step,
  );
}

const LANGUAGE_HOST = 'pulumi-language-nodejs';

const SDK = 'github.com/pulumi/pulumi/sdk';

/** Folder of the pins, module, and its package with the language host. */
const OTHER_HOSTS = {
  python: ['pulumi-language-python', `${SDK}/python/cmd/pulumi-language-python/v3`, ''],
  go: ['pulumi-language-python', `${SDK}/go/pulumi-language-go/v3`, ''],
  yaml: ['pulumi-language-yaml', 'github.com/pulumi/pulumi-yaml', '/cmd/pulumi-language-yaml'],
  dotnet: ['pulumi-language-yaml', 'github.com/pulumi/pulumi-dotnet/pulumi-language-dotnet/v3', ''],
  java: ['pulumi-language-yaml', 'github.com/pulumi/pulumi-java', '/pkg/cmd/pulumi-language-java'],
} as const;

export type OtherLanguage = keyof typeof OTHER_HOSTS;

export const OTHER_LANGUAGES = Object.keys(OTHER_HOSTS) as OtherLanguage[];

/** Those that each run of the tests needs. The others take minutes to build, and only the long form generates their SDKs. */
export const USUAL_LANGUAGES: readonly OtherLanguage[] = ['python', 'go', 'yaml'];

/** The language host of another language, for the tests of the package. An installed Pulumi includes them. */
export async function ensureOtherHost(pulumi: string, language: OtherLanguage, step?: Step): Promise<string> {
  const name = `pulumi-language-${language}`;
  if (pulumi === 'pulumi' && findOnPath(name) !== undefined) return name;
  const [pins, module, folder] = OTHER_HOSTS[language];
  const path = await ensureGoProgram({ name, pins, module, package: `${module}${folder}` }, step);
  if (language === 'python') await addExecutor(path, pins);
  return path;
}

/** The host of Python starts a program beside it, which is in the module of the SDK. */
async function addExecutor(host: string, pins: string): Promise<void> {
  const executor = `${host}-exec`;
  if (existsSync(executor)) return;
  const { directory } = await downloadModule(pins, `${SDK}/v3`);
  const partial = `${executor}.${process.pid}`;
  copyFileSync(join(directory, 'python', 'cmd', basename(executor)), partial);
  chmodSync(partial, 0o755);
  renameSync(partial, executor);
}

/** A plugin with a Pulumi provider, in the version of the npm package that a program imports. */
export interface ResourcePlugin {
  /** `kubernetes`, `aws` */
  name: string;
  /** Version without v. */
  version: string;
  /** Path of its program. */
  path: string;
}

/** The provider for Kubernetes objects: the installed one, otherwise built once. */
export async function ensureKubernetesPlugin(step?: Step): Promise<ResourcePlugin> {
  const [name, version] = ['kubernetes', packageVersion('@pulumi/kubernetes')];
  const installed = findInstalledPlugin(name, version);
  if (installed !== undefined) return installed;
  const path = await ensureGoProgram(
    {
      name: 'pulumi-resource-kubernetes',
      pins: 'pulumi-kubernetes',
      module: 'github.com/pulumi/pulumi-kubernetes/provider/v4',
      package: '.',
      ldflags: () => `-X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version=${version}`,
      embeds: (module) => {
        const read = (file: string): object =>
          JSON.parse(readFileSync(join(module, 'cmd', 'pulumi-resource-kubernetes', file), 'utf8')) as object;
        return {
          'schema.json': JSON.stringify({ ...read('schema.json'), version }),
          'terraform-mapping.json': JSON.stringify(read('terraform-mapping.json')),
        };
      },
      patches: { ...CLIENT_SIDE_CREATE, ...NO_COMPONENTS },
    },
    step,
  );
  return { name, version, path };
}

/**
 * The provider refuses to create an object that exists since 4.29.0 (pulumi-kubernetes#4278). The module proxy serves no
 * commit of it that is newer than 4.25.0, so the tests build 4.25.0 with that change.
 */
const CLIENT_SIDE_CREATE = {
  'pkg/await/await.go': [
    [
      'if c.ServerSideApply {\n\t\t\t\tforce := patchForce(c.Inputs, nil, c.Preview)',
      'if c.ServerSideApply && kinds.IsPatchResource(c.URN, c.Inputs.GetKind()) {\n\t\t\t\tforce := patchForce(c.Inputs, nil, c.Preview)',
    ],
    [
      'options := metav1.CreateOptions{\n\t\t\t\t\tFieldManager: c.FieldManager,',
      'options := metav1.CreateOptions{\n\t\t\t\t\tFieldManager: "pulumi-kubernetes",',
    ],
  ],
} as const;

const COMPONENTS = 'github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider';

/**
 * The components of the provider, which this project does not use, need the whole SDK for Go: without them the build takes
 * half as long, and the program has a third of the size.
 */
const NO_COMPONENTS = {
  'pkg/provider/provider_construct.go': [
    [`\tproviderhelmv4 "${COMPONENTS}/helm/v4"\n\tproviderkustomizev2 "${COMPONENTS}/kustomize/v2"\n`, ''],
    [`\tprovideryamlv2 "${COMPONENTS}/yaml/v2"\n`, ''],
    [
      [
        '\t"kubernetes:yaml/v2:ConfigFile":     provideryamlv2.NewConfigFileProvider,\n',
        '\t"kubernetes:yaml/v2:ConfigGroup":    provideryamlv2.NewConfigGroupProvider,\n',
        '\t"kubernetes:helm.sh/v4:Chart":       providerhelmv4.NewChartProvider,\n',
        '\t"kubernetes:kustomize/v2:Directory": providerkustomizev2.NewDirectoryProvider,\n',
      ].join(''),
      '',
    ],
  ],
} as const;

/** The plugin in Pulumi's plugin folder; undefined if it is not installed. */
export function findInstalledPlugin(name: string, version: string): ResourcePlugin | undefined {
  const path = join(pluginFolder(pulumiHome(), { name, version }), `pulumi-resource-${name}`);
  return existsSync(path) ? { name, version, path } : undefined;
}

export function installPlugin(home: string, plugin: ResourcePlugin): void {
  const folder = pluginFolder(home, plugin);
  mkdirSync(folder, { recursive: true });
  const target = join(folder, `pulumi-resource-${plugin.name}`);
  if (existsSync(target)) return;
  try {
    linkSync(plugin.path, target);
  } catch {
    copyFileSync(plugin.path, target); // Different file systems.
  }
}

function pluginFolder(home: string, { name, version }: Pick<ResourcePlugin, 'name' | 'version'>): string {
  return join(home, 'plugins', `resource-${name}-v${version}`);
}

function pulumiHome(): string {
  const home = process.env['PULUMI_HOME'];
  return home !== undefined && home !== '' ? home : join(homedir(), '.pulumi');
}

/** The version of a dependency in package.json. */
export function packageVersion(name: string): string {
  const { dependencies } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const version = dependencies[name];
  if (version === undefined) throw new Error(`package.json does not pin ${name}`);
  return version;
}
