import type { Rule } from '../pack';
import { modelRules } from './models';
import { servingRules } from './serving';

/** Rules about serving models, which general scanners do not know. */
export const rules: readonly Rule[] = [...servingRules, ...modelRules];
