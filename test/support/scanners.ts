import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import type { Checkov } from '../../tools/toolchain/scanners';

/** A failed check of a scanner. */
export interface ScannerFinding {
  /** Id of the check: `CKV_AWS_144`, `pod-probes`. */
  check: string;
  /** Name of the scanned resource. */
  resource: string;
  what: string;
}

/** Result of a scan. */
export interface Scan {
  /** Number of passed checks. 0 would mean that nothing was scanned. */
  passed: number;
  failed: ScannerFinding[];
}

/** Runs a program and returns its stdout, also if it fails, as scanners do when they find something. */
async function getOutput(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  try {
    return (await exec(command, args, { env })).stdout;
  } catch (error) {
    if (error instanceof CommandError && error.output.stdout.trim() !== '') return error.output.stdout;
    throw error;
  }
}

interface CheckovReport {
  results: Record<'passed_checks' | 'failed_checks', { check_id: string; resource: string; check_name: string }[]>;
  summary: { parsing_errors: number };
}

/** Scans the files of a folder with checkov. */
export async function scanWithCheckov(
  { command, args, env }: Checkov,
  framework: 'kubernetes' | 'terraform_plan',
  directory: string,
): Promise<Scan> {
  const all = [...args, '--framework', framework, '--directory', directory, '--output', 'json'];
  const text = await getOutput(command, [...all, '--compact', '--skip-download'], env);
  const { results, summary } = JSON.parse(text) as CheckovReport;
  expect(summary.parsing_errors).toBe(0);
  return {
    passed: results.passed_checks.length,
    failed: results.failed_checks.map((one) => ({ check: one.check_id, resource: one.resource, what: one.check_name })),
  };
}

interface KubeScoreReport {
  object_name: string;
  type_meta: { kind: string };
  object_meta: { name: string };
  checks:
    | {
        check: { id: string; name: string };
        /** 10: OK, 7: almost OK, 5: warning, 1: critical. */
        grade: number;
        skipped: boolean;
        comments: { path: string; summary: string }[] | null;
      }[]
    | null;
}

const KUBE_SCORE_FINE = 7;

/** Scans files together with kube-score. Warnings count as failures. */
export async function scanWithKubeScore(
  program: string,
  files: readonly string[],
  kubernetesVersion: string,
): Promise<Scan> {
  const args = ['score', '--output-format', 'json', '--kubernetes-version', `v${kubernetesVersion}`, ...files];
  const reports = JSON.parse(await getOutput(program, args)) as KubeScoreReport[];
  const checks = reports.flatMap(({ type_meta: { kind }, object_meta: { name }, checks: of }) =>
    (of ?? []).filter(({ skipped }) => !skipped).map((check) => ({ ...check, resource: `${kind} ${name}` })),
  );
  return {
    passed: checks.filter(({ grade }) => grade >= KUBE_SCORE_FINE).length,
    failed: checks
      .filter(({ grade }) => grade < KUBE_SCORE_FINE)
      .map(({ check, resource, comments }) => ({
        check: check.id,
        resource,
        what: (comments ?? []).map(({ path, summary }) => `${path} ${summary}`.trim()).join('; ') || check.name,
      })),
  };
}

interface KubeconformReport {
  resources: { kind: string; name: string; status: string; msg: string }[];
  summary: { valid: number; invalid: number; errors: number; skipped: number };
}

/**
 * Validates files with kubeconform in strict mode.
 * @param skip kinds without a published schema
 */
export async function scanWithKubeconform(
  program: string,
  files: readonly string[],
  schemas: string,
  skip: readonly string[],
): Promise<Scan & { skipped: number }> {
  const args = ['-strict', '-summary', '-output', 'json', '-schema-location', schemas, '-skip', skip.join(',')];
  const { resources = [], summary } = JSON.parse(
    await getOutput(program, [...args, ...files]),
  ) as Partial<KubeconformReport> & Pick<KubeconformReport, 'summary'>;
  return {
    passed: summary.valid,
    skipped: summary.skipped,
    failed: resources
      .filter(({ status }) => !/Valid|Skipped/.test(status) || /Invalid/.test(status))
      .map(({ kind, name, msg }) => ({ check: 'schema', resource: `${kind} ${name}`, what: msg })),
  };
}

/** Writes a plan to a file name that checkov recognises. */
export function writePlan(plan: object, directory: string): string {
  const file = join(directory, 'tfplan.json');
  writeFileSync(file, JSON.stringify(plan, undefined, 1));
  return file;
}
