import path from 'node:path';
import type { ModelConfig } from './model-config';
import { displayPath, exists } from './paths';
import type { ProblemList } from '../core/problems';
import type { ModelVersion } from './versions';

/** Lists the packages of model.py and trace.py for all versions, in the model's folder. */
export const REQUIREMENTS_FILE = 'requirements.txt';

/** Parameter of Triton's Python backend that names an archive or folder with a Python environment. */
const ENVIRONMENT_PARAMETER = 'EXECUTION_ENV_PATH';

/** Checks the requirements.txt of a model folder, if it exists. */
export async function checkRequirements(
  root: string,
  { config, versions }: { config: ModelConfig; versions: readonly ModelVersion[] },
  problems: ProblemList,
): Promise<void> {
  for (const { version, files } of versions) {
    if (!files.some(({ key }) => key === `${version}/${REQUIREMENTS_FILE}`)) continue;
    problems.problems.push({
      file: displayPath(path.join(root, String(version), REQUIREMENTS_FILE)),
      message: 'is not read; one file applies to all versions',
      hint: `move it to ${path.basename(root)}/${REQUIREMENTS_FILE}`,
    });
  }
  if (!(await exists(path.join(root, REQUIREMENTS_FILE)))) return;
  const environment = config.parameters?.[ENVIRONMENT_PARAMETER]?.string_value;
  if (environment !== undefined && environment !== '') {
    problems.add(`parameters.${ENVIRONMENT_PARAMETER}`, `is set, so Triton ignores ${REQUIREMENTS_FILE}`, {
      hint: `put the packages into that environment and delete ${REQUIREMENTS_FILE}, or remove the parameter`,
    });
  }
}

/** Whether the packages of requirements.txt contradict NumPy 1, which the local server needs. */
export function requiresNumpy2(requirements: string): boolean {
  const versions = /^\s*numpy(?![\w.-])\s*(?:\[[^\]]*\])?\s*\(?([^;#)\n]*)/im.exec(requirements)?.[1] ?? '';
  return /(?:>=|>|==|===|~=)\s*(?:[2-9]|\d\d)/.test(versions);
}
