import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { paths } from '../../src/core/paths';

const WORKFLOWS_FOLDER = join(paths.root, '.github', 'workflows');

export interface WorkflowStep {
  id?: string;
  name?: string;
  uses?: string;
  run?: string;
  with?: Record<string, unknown>;
  env?: Record<string, string>;
}

export interface Job {
  if?: string;
  needs?: string | string[];
  uses?: string;
  environment?: string;
  env?: Record<string, string>;
  permissions?: Record<string, string>;
  'timeout-minutes'?: number;
  steps?: WorkflowStep[];
}

export interface Workflow {
  on: unknown;
  permissions?: Record<string, string>;
  concurrency?: { group: string; 'cancel-in-progress': unknown };
  jobs: Record<string, Job>;
}

/** The action of this repository, which other repositories use to publish. */
export const publishAction = (): { inputs: Record<string, { required?: boolean }>; runs: { steps: WorkflowStep[] } } =>
  load(readFileSync(join(paths.root, 'action.yml'), 'utf8')) as ReturnType<typeof publishAction>;

/** File name -> workflow. */
export const workflows = (): Record<string, Workflow> =>
  Object.fromEntries(
    readdirSync(WORKFLOWS_FOLDER).map((file) => [
      file,
      load(readFileSync(join(WORKFLOWS_FOLDER, file), 'utf8')) as Workflow,
    ]),
  );
