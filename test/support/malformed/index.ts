import type { MalformedCase } from './case';
import { ENSEMBLE_CASES } from './ensembles';
import { FILES, NAMES } from './files';
import { GOLDEN } from './golden';
import { TEXT_TRAPS } from './pbtxt';
import { RULE_CASES } from './rules';
import { YAML_TRAPS } from './yaml';

export { writeMalformed, type Malformed, type MalformedCase } from './case';

/** Model repositories that cannot be published, with the problem of each. */
export const MALFORMED: readonly MalformedCase[] = [
  ...YAML_TRAPS,
  ...TEXT_TRAPS,
  ...RULE_CASES,
  ...ENSEMBLE_CASES,
  ...FILES,
  ...GOLDEN,
  ...NAMES,
];
