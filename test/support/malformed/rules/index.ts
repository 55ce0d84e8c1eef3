import { torchScript } from '../../model-files';
import { ARTIFACT, inBothLanguages, sound, type MalformedCase, type RuleCase } from '../case';
import { IDENTITY } from './identity';
import { PROGRAMS } from './programs';
import { RELEASES } from './releases';
import { SCHEDULING } from './scheduling';
import { SEQUENCE } from './sequence';
import { TENSORS } from './tensors';
import { WARMUP } from './warmup';

const CASES: readonly RuleCase[] = [...IDENTITY, ...TENSORS, ...SCHEDULING, ...SEQUENCE, ...PROGRAMS, ...WARMUP];
const FILES = { ...ARTIFACT, 'm/1/model.py': 'x', 'm/1/x': torchScript() };

/** Readable configurations that Triton rejects, as model.yaml and as config.pbtxt. */
export const RULE_CASES: readonly MalformedCase[] = [
  ...CASES.flatMap(([fields, ...problems]) => inBothLanguages('', [sound(fields), ...problems], FILES)),
  ...RELEASES({ ...FILES, 'm/1/model.graphdef': 'x' }),
];
