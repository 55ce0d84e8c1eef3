import { output, PLATFORMS, type RuleCase } from '../case';

/** Name, backend, versions and files of a model. */
export const IDENTITY: readonly RuleCase[] = [
  [
    'another name',
    { name: 'n' },
    'name: must be the name of the folder, got "n"; allowed: "m"\n    -> remove the line, or rename the folder',
  ],
  [
    'an unknown platform',
    { platform: 'caffe' },
    `platform: is not a Triton platform, got "caffe"; allowed: ${PLATFORMS}\n    -> for a custom backend, set backend instead of platform`,
  ],
  [
    'a backend as platform',
    { platform: 'pytorch' },
    `platform: is not a Triton platform, got "pytorch"; allowed: ${PLATFORMS}\n    -> did you mean "platform: pytorch_libtorch" or "backend: pytorch"?`,
  ],
  [
    'a misspelt platform',
    { platform: 'onnxruntime_onxx' },
    `platform: is not a Triton platform, got "onnxruntime_onxx"; allowed: ${PLATFORMS}\n    -> did you mean "onnxruntime_onnx"?`,
  ],
  [
    'an empty platform',
    { platform: '', backend: '', default_model_filename: 'x' },
    `platform: is missing; allowed: ${PLATFORMS}\n    -> or set backend, for example pytorch, tensorrt, onnxruntime, python, openvino`,
  ],
  [
    'a backend of another platform',
    { backend: 'onnxruntime' },
    'backend: does not serve the platform pytorch_libtorch, got "onnxruntime"; allowed: pytorch',
  ],
  [
    'a file above',
    { default_model_filename: '../model.pt' },
    'default_model_filename: must name a file in the version folder, got "../model.pt"',
  ],
  [
    'a file above for one GPU',
    { cc_model_filenames: { '8.0': '../x' } },
    'cc_model_filenames["8.0"]: must name a file in the version folder, got "../x"',
  ],
  [
    'steps of no ensemble',
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
  ['no agents', { model_repository_agents: {} }, 'model_repository_agents: lists no agent\n    -> remove it'],
  [
    'an agent without a name',
    { model_repository_agents: { agents: [{}] } },
    'model_repository_agents.agents[0].name: is missing',
  ],
  [
    'the newest 0 versions',
    { version_policy: { latest: {} } },
    'version_policy.latest.num_versions: must be at least 1, got 0',
  ],
  [
    'no version in particular',
    { version_policy: { specific: {} } },
    'version_policy.specific.versions: lists no version',
  ],
  [
    'a version that is not there',
    { version_policy: { specific: { versions: [1, 2] } } },
    'version_policy.specific.versions[1]: has no version folder, got 2; allowed: 1\n    -> put its files into m/2/, or run "npm run trace -- --models m --repo ." if the model has a trace.py',
  ],
  [
    'version 0',
    { version_policy: { specific: { versions: [0] } } },
    'version_policy.specific.versions[0]: has no version folder, got 0; allowed: 1\n    -> version numbers start at 1',
  ],
  [
    'labels that are not there',
    { output: [output({ label_filename: 'labels.txt' })] },
    'output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> put it at m/labels.txt',
  ],
  [
    'labels elsewhere',
    { output: [output({ label_filename: '../labels.txt' })] },
    'output[0].label_filename: points outside the model folder, got "../labels.txt"\n    -> copy the file into the model folder',
  ],
  [
    'a parameter that leaves the folder',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    'parameters.p.string_value: points outside the model folder, got "../x"\n    -> copy the file into the model folder',
  ],
  [
    'a parameter that names no file',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    'parameters.p.string_value: names a file that is not in the model folder: "x"\n    -> put it at m/x',
  ],
  [
    'an unknown platform of a known backend',
    { platform: 'foo', backend: 'tensorrt', default_model_filename: 'x' },
    'platform: is not served by the backend tensorrt, got "foo"; allowed: tensorrt_plan',
  ],
];
