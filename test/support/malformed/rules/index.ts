import { configText, type ModelConfig } from '../../../../src/model';
import { torchScript } from '../../model-files';
import { ARTIFACT, begins, sound, type MalformedCase } from '../case';
import { BACKENDS } from './backends';
import { IDENTITY } from './identity';
import { SCHEDULING } from './scheduling';
import { SEQUENCE } from './sequence';
import { TENSORS } from './tensors';
import { WARMUP } from './warmup';

const ROWS = [...IDENTITY, ...TENSORS, ...SCHEDULING, ...SEQUENCE, ...BACKENDS, ...WARMUP];

/** Readable configurations that Triton rejects, as model.yaml and as config.pbtxt. */
export const RULE_CASES: readonly MalformedCase[] = ROWS.flatMap(([name, fields, field, says]) => {
  const config = sound(fields);
  const artifacts = { ...ARTIFACT, 'm/1/model.py': 'x', 'm/1/x': torchScript() };
  return [
    {
      name: `model.yaml: ${name}`,
      files: { ...artifacts, 'm/model.yaml': JSON.stringify(config) },
      problem: begins(`m/model.yaml: ${field}: ${says}`),
    },
    {
      name: `config.pbtxt: ${name}`,
      files: { ...artifacts, 'm/config.pbtxt': configText(config as unknown as ModelConfig) },
      problem: begins(`m/config.pbtxt: ${field}: ${says}`),
    },
  ];
});
