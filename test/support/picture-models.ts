import { answeringProgram } from './repository';

/**
 * Models with names and configurations of this package's models but trivial computations, on Triton's python backend:
 * files for writeRepository. The ensemble returns the negative of a picture; the classifier always returns class 1.
 */
export function pictureModels(): Record<string, string> {
  const pixels = (direction: string, name: string): string =>
    `${direction} { name: "${name}" data_type: TYPE_UINT8 dims: [-1, -1, 3] }`;
  return {
    'negative/config.pbtxt': config('backend: "python"', pixels('input', 'x'), pixels('output', 'y')),
    'negative/1/model.py': answeringProgram('x', 'y', '255 - x'),
    'ens_face_restoration_v2.1/config.pbtxt': config(
      'platform: "ensemble"',
      pixels('input', 'raw_image'),
      pixels('output', 'image_out'),
      'ensemble_scheduling { step { model_name: "negative" model_version: -1',
      '  input_map { key: "x" value: "raw_image" } output_map { key: "y" value: "image_out" } } }',
    ),
    'ens_face_restoration_v2.1/1/.keep': 'An ensemble has no file.\n',
    'resnet/config.pbtxt': config(
      'backend: "python"',
      'input { name: "input__0" data_type: TYPE_FP32 dims: [1, 3, 224, 224] }',
      'output { name: "output__0" data_type: TYPE_FP32 dims: [1, 3] }',
    ),
    'resnet/labels.txt': 'a\nb <b>\nc\n',
    'resnet/1/model.py': answeringProgram('input__0', 'output__0', 'np.array([[0, 50, 0]], dtype=np.float32)'),
  };
}

function config(...lines: string[]): string {
  return [...lines, ''].join('\n');
}
