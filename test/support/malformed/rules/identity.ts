import { output, PLATFORMS, type RuleCase } from '../case';

/** Name, backend, versions and files of a model. */
export const IDENTITY: readonly RuleCase[] = [
  [
    { name: 'n' },
    'name: must be the name of the folder, got "n"; allowed: "m"\n    -> remove the line, or rename the folder',
  ],
  [
    { platform: 'caffe' },
    `platform: is not a Triton platform, got "caffe"; allowed: ${PLATFORMS}\n    -> for a custom backend, set backend instead of platform`,
  ],
  [
    { platform: 'pytorch' },
    `platform: is not a Triton platform, got "pytorch"; allowed: ${PLATFORMS}\n    -> did you mean "platform: pytorch_libtorch" or "backend: pytorch"?`,
  ],
  [
    { platform: 'onnxruntime_onxx' },
    `platform: is not a Triton platform, got "onnxruntime_onxx"; allowed: ${PLATFORMS}\n    -> did you mean "onnxruntime_onnx"?`,
  ],
  [
    { platform: '', backend: '', default_model_filename: 'x' },
    `platform: is missing; allowed: ${PLATFORMS}\n    -> or set backend, for example pytorch, tensorrt, onnxruntime, python, openvino`,
  ],
  [
    { backend: 'onnxruntime' },
    'backend: does not serve the platform pytorch_libtorch, got "onnxruntime"; allowed: pytorch',
  ],
  [
    { default_model_filename: '../model.pt' },
    'default_model_filename: must name a file in the version folder, got "../model.pt"',
  ],
  [
    { cc_model_filenames: { '8.0': '../x' } },
    'cc_model_filenames["8.0"]: must name a file in the version folder, got "../x"',
  ],
  [
    {
      ensemble_scheduling: {
        step: [
          {
            model_name: 'm',
            model_version: -1,
            input_map: { input__0: 'input__0' },
            output_map: { output__0: 'output__0' },
          },
        ],
      },
    },
    'ensemble_scheduling: requires platform: ensemble, got "pytorch_libtorch"\n    -> set platform: ensemble',
  ],
  [{ model_repository_agents: {} }, 'model_repository_agents: lists no agent\n    -> remove it'],
  [{ model_repository_agents: { agents: [{}] } }, 'model_repository_agents.agents[0].name: is missing'],
  [{ version_policy: { latest: {} } }, 'version_policy.latest.num_versions: must be at least 1, got 0'],
  [{ version_policy: { specific: {} } }, 'version_policy.specific.versions: lists no version'],
  [
    { version_policy: { specific: { versions: [1, 2] } } },
    'version_policy.specific.versions[1]: has no version folder, got 2; allowed: 1\n    -> put its files into m/2/, or run "npm run trace -- --models m --repo ." if the model has a trace.py',
  ],
  [
    { version_policy: { specific: { versions: [0] } } },
    'version_policy.specific.versions[0]: has no version folder, got 0; allowed: 1\n    -> version numbers start at 1',
  ],
  [
    { output: [output({ label_filename: 'labels.txt' })] },
    'output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> put it at m/labels.txt',
  ],
  [
    { output: [output({ label_filename: '../labels.txt' })] },
    'output[0].label_filename: points outside the model folder, got "../labels.txt"\n    -> copy the file into the model folder',
  ],
  [
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    'parameters.p.string_value: points outside the model folder, got "../x"\n    -> copy the file into the model folder',
  ],
  [
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    'parameters.p.string_value: names a file that is not in the model folder: "x"\n    -> put it at m/x',
  ],
  [
    { platform: 'foo', backend: 'tensorrt', default_model_filename: 'x' },
    'platform: is not served by the backend tensorrt, got "foo"; allowed: tensorrt_plan',
  ],
];
