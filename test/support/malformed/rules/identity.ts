import { output, PLATFORMS, type RuleCase } from '../case';

/** Name, backend, versions and files of a model. */
export const IDENTITY: readonly RuleCase[] = [
  {
    name: 'another name',
    fields: { name: 'n' },
    problems:
      'name: must be the name of the folder, got "n"; allowed: "m"\n    -> remove the line, or rename the folder',
  },
  {
    name: 'an unknown platform',
    fields: { platform: 'caffe' },
    problems: `platform: is not a Triton platform, got "caffe"; allowed: ${PLATFORMS}\n    -> for a custom backend, set backend instead of platform`,
  },
  {
    name: 'a backend as platform',
    fields: { platform: 'pytorch' },
    problems: `platform: is not a Triton platform, got "pytorch"; allowed: ${PLATFORMS}\n    -> did you mean "platform: pytorch_libtorch" or "backend: pytorch"?`,
  },
  {
    name: 'a misspelt platform',
    fields: { platform: 'onnxruntime_onxx' },
    problems: `platform: is not a Triton platform, got "onnxruntime_onxx"; allowed: ${PLATFORMS}\n    -> did you mean "onnxruntime_onnx"?`,
  },
  {
    name: 'an empty platform',
    fields: { platform: '', backend: '', default_model_filename: 'x' },
    problems: `platform: is missing; allowed: ${PLATFORMS}\n    -> or set backend, for example pytorch, tensorrt, onnxruntime, python, openvino`,
  },
  {
    name: 'a backend of another platform',
    fields: { backend: 'onnxruntime' },
    problems: 'backend: does not serve the platform pytorch_libtorch, got "onnxruntime"; allowed: pytorch',
  },
  {
    name: 'a file above',
    fields: { default_model_filename: '../model.pt' },
    problems: 'default_model_filename: must name a file in the version folder, got "../model.pt"',
  },
  {
    name: 'a file elsewhere',
    fields: { default_model_filename: '/etc/passwd' },
    problems: 'default_model_filename: must name a file in the version folder, got "/etc/passwd"',
  },
  {
    name: 'a file above for one GPU',
    fields: { cc_model_filenames: { '8.0': '../x' } },
    problems: 'cc_model_filenames["8.0"]: must name a file in the version folder, got "../x"',
  },
  {
    name: 'steps of no ensemble',
    fields: {
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
    problems: 'ensemble_scheduling: requires platform: ensemble, got "pytorch_libtorch"\n    -> set platform: ensemble',
  },
  {
    name: 'no agents',
    fields: { model_repository_agents: {} },
    problems: 'model_repository_agents: lists no agent\n    -> remove it',
  },
  {
    name: 'an agent without a name',
    fields: { model_repository_agents: { agents: [{}] } },
    problems: 'model_repository_agents.agents[0].name: is missing',
  },
  {
    name: 'the newest 0 versions',
    fields: { version_policy: { latest: {} } },
    problems: 'version_policy.latest.num_versions: must be at least 1, got 0',
  },
  {
    name: 'no version in particular',
    fields: { version_policy: { specific: {} } },
    problems: 'version_policy.specific.versions: lists no version',
  },
  {
    name: 'a version that is not there',
    fields: { version_policy: { specific: { versions: [1, 2] } } },
    problems:
      'version_policy.specific.versions[1]: has no version folder, got 2; allowed: 1\n    -> put its files into m/2/, or run "npm run trace -- --models m --repo ." if the model has a trace.py',
  },
  {
    name: 'version 0',
    fields: { version_policy: { specific: { versions: [0] } } },
    problems:
      'version_policy.specific.versions[0]: has no version folder, got 0; allowed: 1\n    -> version numbers start at 1',
  },
  {
    name: 'version -1',
    fields: { version_policy: { specific: { versions: [-1] } } },
    problems:
      'version_policy.specific.versions[0]: has no version folder, got -1; allowed: 1\n    -> version numbers start at 1',
  },
  {
    name: 'labels that are not there',
    fields: { output: [output({ label_filename: 'labels.txt' })] },
    problems:
      'output[0].label_filename: names a file that is not in the model folder: "labels.txt"\n    -> put it at m/labels.txt',
  },
  {
    name: 'labels elsewhere',
    fields: { output: [output({ label_filename: '../labels.txt' })] },
    problems:
      'output[0].label_filename: points outside the model folder, got "../labels.txt"\n    -> copy the file into the model folder',
  },
  {
    name: 'a parameter that leaves the folder',
    fields: { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    problems:
      'parameters.p.string_value: points outside the model folder, got "../x"\n    -> copy the file into the model folder',
  },
  {
    name: 'a parameter that names no file',
    fields: { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    problems: 'parameters.p.string_value: names a file that is not in the model folder: "x"\n    -> put it at m/x',
  },
  {
    name: 'an unknown platform of a known backend',
    fields: { platform: 'foo', backend: 'tensorrt', default_model_filename: 'x' },
    problems: 'platform: is not served by the backend tensorrt, got "foo"; allowed: tensorrt_plan',
  },
];
