import { didYouMean } from '../../core/nearest';
import { BACKENDS, PLATFORMS } from '../platforms';
import { describe } from '../../core/problems';
import { staysInside } from '../paths';
import type { ModelRule } from './rule';

/** Triton refuses a model whose name in the configuration differs from its folder. */
const nameIsTheFolders: ModelRule = ({ name, config, problems }) => {
  if (config.name === name) return;
  problems.add('name', `must be the name of the folder, got ${describe(config.name)}`, {
    allowed: JSON.stringify(name),
    hint: 'remove the line, or rename the folder',
  });
};

/** The name is part of S3 keys and of the server's URLs. Characters outside this set need escapes in one of them. */
const nameIsPlain: ModelRule = ({ name, problems }) => {
  if (/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(name)) return;
  problems.add('name', `cannot be used as a name in S3 and in Triton's URLs, got ${describe(name)}`, {
    allowed: 'letters, digits, "_", "-" and ".", not starting with "-" or "."',
    hint: 'rename the folder',
  });
};

const platformIsGiven: ModelRule = ({ config, facts, problems }) => {
  if (config.platform || config.backend || facts !== undefined) return;
  problems.add('platform', 'is missing', {
    allowed: Object.keys(PLATFORMS).join(', '),
    hint: `or set backend, for example ${Object.keys(BACKENDS).join(', ')}`,
  });
};

/** With a user's own backend, any platform is accepted. */
const platformIsKnown: ModelRule = ({ config, facts, problems }) => {
  if (!config.platform || facts !== undefined) return;
  problems.add('platform', `is not a Triton platform, got ${describe(config.platform)}`, {
    allowed: Object.keys(PLATFORMS).join(', '),
    hint: platformHint(config.platform),
  });
};

function platformHint(given: string): string {
  const asBackend = Object.hasOwn(BACKENDS, given) ? BACKENDS[given]?.label : undefined;
  if (asBackend !== undefined && Object.hasOwn(PLATFORMS, asBackend)) {
    return `did you mean "platform: ${asBackend}" or "backend: ${given}"?`;
  }
  return didYouMean(given, Object.keys(PLATFORMS)) ?? 'for a custom backend, set backend instead of platform';
}

const platformFitsBackend: ModelRule = ({ config: { platform, backend }, problems }) => {
  if (!platform || !backend) return;
  if (platform === 'ensemble') {
    problems.add('backend', `must not be set for an ensemble, got ${describe(backend)}`, { hint: 'remove the line' });
    return;
  }
  const known = Object.values(PLATFORMS).filter((facts) => facts.backend === backend);
  const expected = Object.hasOwn(PLATFORMS, platform) ? PLATFORMS[platform]?.backend : undefined;
  if (expected !== undefined && expected !== backend) {
    problems.add('backend', `does not serve the platform ${platform}, got ${describe(backend)}`, { allowed: expected });
  } else if (expected === undefined && known.length > 0) {
    problems.add('platform', `is not served by the backend ${backend}, got ${describe(platform)}`, {
      allowed: known.map((facts) => facts.label).join(', '),
    });
  }
};

/** The file must be in the version folder. */
const fileNamesStayInside: ModelRule = ({ config, problems }) => {
  const names = Object.entries(config.cc_model_filenames ?? {}).map(([capability, file]): [string, string] => [
    `cc_model_filenames[${JSON.stringify(capability)}]`,
    file,
  ]);
  if (config.default_model_filename) names.push(['default_model_filename', config.default_model_filename]);
  for (const [field, file] of names) {
    if (staysInside(file)) continue;
    problems.add(field, `must name a file in the version folder, got ${describe(file)}`);
  }
};

/** Triton 2.51 does not refuse an empty list; the server crashes with all other models. */
const agentsHaveNames: ModelRule = ({ config: { model_repository_agents: agents }, problems }) => {
  if (agents === undefined) return;
  if ((agents.agents ?? []).length === 0)
    problems.add('model_repository_agents', 'lists no agent', { hint: 'remove it' });
  (agents.agents ?? []).forEach(({ name }, index) => {
    if (!name) problems.add(`model_repository_agents.agents[${index}].name`, 'is missing');
  });
};

const scheduleFitsPlatform: ModelRule = ({ config, problems }) => {
  const isEnsemble = config.platform === 'ensemble';
  if (config.ensemble_scheduling !== undefined && !isEnsemble) {
    problems.add('ensemble_scheduling', `requires platform: ensemble, got ${describe(config.platform)}`, {
      hint: 'set platform: ensemble',
    });
  }
  if (config.ensemble_scheduling === undefined && isEnsemble) {
    problems.add('ensemble_scheduling', 'is missing; it lists the steps of the ensemble');
  }
};

/** Rules for the names of a model and for the backend that serves it. */
export const identityRules: readonly ModelRule[] = [
  nameIsTheFolders,
  nameIsPlain,
  platformIsGiven,
  platformIsKnown,
  platformFitsBackend,
  fileNamesStayInside,
  agentsHaveNames,
  scheduleFitsPlatform,
];
