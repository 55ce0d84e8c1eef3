import { traceCommand } from '../../core/next-command';
import type { ModelRule } from './rule';

/** Triton serves no version of a model whose policy selects none. */
const policySelectsSomething: ModelRule = ({ config: { version_policy: policy }, problems }) => {
  if (policy?.latest !== undefined && (policy.latest.num_versions ?? 0) < 1) {
    problems.add('version_policy.latest.num_versions', `must be at least 1, got ${policy.latest.num_versions ?? 0}`);
  }
  if (policy?.specific !== undefined && (policy.specific.versions ?? []).length === 0) {
    problems.add('version_policy.specific.versions', 'lists no version');
  }
};

/** Triton skips missing versions and only logs a line. */
const specificVersionsExist: ModelRule = ({
  name,
  directory,
  config: { version_policy: policy },
  versions,
  problems,
}) => {
  // A model without any version folder is reported once, elsewhere.
  if (versions === undefined || versions.length === 0) return;
  (policy?.specific?.versions ?? []).forEach((version, index) => {
    if (versions.includes(version)) return;
    problems.add(`version_policy.specific.versions[${index}]`, `has no version folder, got ${version}`, {
      allowed: versions.join(', '),
      hint:
        version < 1
          ? 'version numbers start at 1'
          : `put its files into ${name}/${version}/, or run "${traceCommand(directory)}" if the model has a trace.py`,
    });
  });
};

/** Rules for the selection of served versions. */
export const versionRules: readonly ModelRule[] = [policySelectsSomething, specificVersionsExist];
