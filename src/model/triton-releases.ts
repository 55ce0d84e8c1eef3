import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../core/paths';
import type { ModelConfig } from './model-config';

/*
 * What differs between releases of Triton. A release is YY.MM, as in the tags of NVIDIA's images, so releases compare as
 * texts. All flags that this package passes, and all metrics that it reads, exist since 24.10: src/command_line_parser.cc and
 * docs/user_guide/metrics.md of triton-inference-server/server at v2.51.0.
 */

/**
 * Releases with their versions of Triton. Up to 26.07: build.py at github.com/triton-inference-server/server/tree/vVERSION,
 * with the date of the tag. All read on 2026-12-01.
 */
export const TRITON_RELEASES: Readonly<Record<string, string | undefined>> = {
  '24.10': '2.51.0', // 2024-10-28
  '24.11': '2.52.0', // 2024-11-25
  '24.12': '2.53.0', // 2024-12-23
  '25.01': '2.54.0', // 2025-01-29; TRITON_VERSION of the branch r25.01
  '25.02': '2.55.0', // 2025-02-26
  '25.03': '2.56.0', // 2025-04-07
  '25.04': '2.57.0', // 2025-05-12
  '25.05': '2.58.0', // 2025-05-28
  '25.06': '2.59.0', // 2025-06-26
  '25.07': '2.59.1', // 2025-07-29
  '25.08': '2.60.0', // 2025-08-25
  '25.09': '2.61.0', // 2025-10-03
  '25.10': '2.62.0', // 2025-10-30
  '25.11': '2.63.0', // 2025-11-25
  '25.12': '2.64.0', // 2025-12-19
  '26.01': '2.65.0', // 2026-01-29
  '26.02': '2.66.0', // 2026-02-24
  '26.03': '2.67.0', // 2026-03-24
  '26.04': '2.68.0', // 2026-04-27
  '26.05': '2.69.0', // 2026-05-27
  '26.06': '2.70.0', // 2026-06-25
  '26.07': '2.71.0', // 2026-07-24
  '26.08': '2.72.0', // 2026-08-20; TRITON_VERSION of the branch r26.08
  '26.09': '2.73.0', // build.py of the branch main at e1db8a6 (2026-08-19), before the release
  // Its notes name no version: docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-26-10.html
  '26.10': undefined,
  '26.11': '2.75.0', // 2026-11-17; github.com/triton-inference-server/server/releases/tag/v2.75.0
};

/** The release in the Dockerfile, the only place that names the default. */
export function defaultRelease(): string {
  const file = join(paths.root, 'Dockerfile');
  const release = /^ARG TRITON_RELEASE=(\S+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
  if (release === undefined) throw new Error(`${file} has no line ARG TRITON_RELEASE=...`);
  return release;
}

/** The release of NVIDIA's image, or of one whose name contains "triton" and whose tag is or begins with a release and "-". */
export const getRelease = (image: string): string | undefined =>
  /triton[^/:@]*:(\d\d\.(?:0[1-9]|1[0-2]))(?:-[\w.-]+)?(?:@[^/]+)?$/.exec(image)?.[1];

/** A critical vulnerability (CVSS 9.0 or more) of all releases before `fixedIn`. */
export interface Vulnerability {
  id: string;
  cvss: number;
  kind: string;
  fixedIn: string;
  /** NVIDIA's security bulletin. */
  advisory: string;
}

const bulletin = (number: number): string => `https://nvidia.custhelp.com/app/answers/detail/a_id/${number}`;

/**
 * From the CSAF files YEAR/NUMBER/NUMBER.json of the bulletins in github.com/NVIDIA/product-security at dbb4ada (2026-08-18).
 * Bulletin 5875 (2026-09-08) has none. Later bulletins were not available on 2026-12-01.
 */
export const VULNERABILITIES: readonly Vulnerability[] = [
  // 2026-08-18
  { id: 'CVE-2026-47627', cvss: 9.8, kind: 'path traversal', fixedIn: '26.06', advisory: bulletin(5865) },
  // 2026-05-19
  { id: 'CVE-2026-24207', cvss: 9.8, kind: 'authentication bypass', fixedIn: '26.03', advisory: bulletin(5828) },
  // 2025-09-16
  { id: 'CVE-2025-23316', cvss: 9.8, kind: 'command injection', fixedIn: '25.08', advisory: bulletin(5691) },
  // 2025-08-04
  { id: 'CVE-2025-23310', cvss: 9.8, kind: 'stack buffer overflow', fixedIn: '25.07', advisory: bulletin(5687) },
  { id: 'CVE-2025-23311', cvss: 9.8, kind: 'stack buffer overflow', fixedIn: '25.07', advisory: bulletin(5687) },
  { id: 'CVE-2025-23317', cvss: 9.1, kind: 'heap buffer overflow', fixedIn: '25.07', advisory: bulletin(5687) },
];

/** The known critical vulnerabilities of a release. */
export const getVulnerabilities = (release: string): Vulnerability[] =>
  VULNERABILITIES.filter(({ fixedIn }) => release < fixedIn);

/** A model with its platform, or its backend if there is no platform. */
interface ServedModel {
  platform: string;
  config: ModelConfig;
}

/** What only some releases can serve. */
interface Feature {
  /** The first release with it. */
  since: string;
  hint: string;
  /** The fields of a model that require it, with their values. */
  uses: (model: ServedModel) => (readonly [field: string, value: string])[];
}

const isProgram = ({ platform, config }: ServedModel): boolean => platform === 'torch_aoti' && !config.runtime;

const tensorsOf = ({ config }: ServedModel) =>
  (['input', 'output'] as const).flatMap((side) =>
    (config[side] ?? []).map((tensor, index) => ({ ...tensor, path: `${side}[${index}]` })),
  );

const NEWER = 'use a newer image of Triton';

const PLATFORM_FEATURES: readonly Feature[] = [
  {
    // "Starting with the 26.03 release": github.com/triton-inference-server/pytorch_backend at 266fd38 (2026-05-13), README.md
    since: '26.03',
    hint: `${NEWER}, or platform: pytorch_libtorch`,
    uses: ({ platform }) => (platform === 'torch_aoti' ? [['platform', platform]] : []),
  },
];

const PROGRAM_FEATURES: readonly Feature[] = [
  {
    // "Starting with Triton Server 26.05": README.md as above. Before, such a tensor was the one at its position in the list.
    since: '26.05',
    hint: `${NEWER}, or number the tensors in the order of forward(): INPUT__0, OUTPUT__0`,
    uses: (model) =>
      tensorsOf(model).flatMap(({ path, name = '' }) =>
        /^(ARGS|RESULT)/.test(name) ? [[`${path}.name`, JSON.stringify(name)]] : [],
      ),
  },
  {
    // README.md at r26.05 excludes them; github.com/triton-inference-server/pytorch_backend/pull/198 (2026-06-11) adds them to
    // 26.06, whose server tests them: qa/L0_torch_aoti at v2.70.0 (2026-06-25).
    since: '26.06',
    hint: `${NEWER}, or set max_batch_size: 0`,
    uses: ({ config: { max_batch_size: size = 0 } }) => (size > 1 ? [['max_batch_size', String(size)]] : []),
  },
  {
    // github.com/triton-inference-server/server/releases/tag/v2.75.0 (2026-11-17)
    since: '26.11',
    hint: `${NEWER}, or convert the data type inside the model`,
    uses: (model) =>
      tensorsOf(model).flatMap(({ path, data_type: type }) =>
        type === 'TYPE_BF16' ? [[`${path}.data_type`, type]] : [],
      ),
  },
];

/** A field of a model whose value a release does not support. */
interface Unsupported {
  field: string;
  message: string;
  allowed: string;
  hint: string;
}

/** What a release cannot serve of a model; without the details of a platform that it does not have. */
export function findUnsupported(model: ServedModel, release: string): Unsupported[] {
  const find = (features: readonly Feature[]): Unsupported[] =>
    features
      .filter(({ since }) => release < since)
      .flatMap(({ since, hint, uses }) =>
        uses(model).map(([field, value]) => ({
          field,
          message: `is not supported by Triton ${release}, got ${value}`,
          allowed: `${since} or newer`,
          hint,
        })),
      );
  const platform = find(PLATFORM_FEATURES);
  return platform.length > 0 || !isProgram(model) ? platform : find(PROGRAM_FEATURES);
}
