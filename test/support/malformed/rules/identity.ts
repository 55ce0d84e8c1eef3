import { output, type RuleRow } from '../case';

/** Name, backend, versions and files of a model. */
export const IDENTITY: readonly RuleRow[] = [
  ['another name', { name: 'n' }, 'name', 'must be the name of the folder, got "n"'],
  ['an unknown platform', { platform: 'caffe' }, 'platform', 'is not a platform of Triton\'s, got "caffe"'],
  ['a backend as platform', { platform: 'pytorch' }, 'platform', "is not a platform of Triton's"],
  ['a misspelt platform', { platform: 'onnxruntime_onxx' }, 'platform', "is not a platform of Triton's"],
  ['an empty platform', { platform: '', backend: '', default_model_filename: 'x' }, 'platform', 'is missing'],
  [
    'a backend of another platform',
    { backend: 'onnxruntime' },
    'backend',
    'does not serve the platform pytorch_libtorch, got "onnxruntime"',
  ],
  [
    'a file above',
    { default_model_filename: '../model.pt' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file elsewhere',
    { default_model_filename: '/etc/passwd' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file above for one GPU',
    { cc_model_filenames: { '8.0': '../x' } },
    'cc_model_filenames["8.0"]',
    'must name a file in the version folder',
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
    'ensemble_scheduling',
    'is for platform ensemble alone',
  ],
  ['no agents', { model_repository_agents: {} }, 'model_repository_agents', 'names no agent'],
  [
    'an agent without a name',
    { model_repository_agents: { agents: [{}] } },
    'model_repository_agents.agents[0].name',
    'is missing',
  ],
  [
    'the newest 0 versions',
    { version_policy: { latest: {} } },
    'version_policy.latest.num_versions',
    'must be at least 1, got 0',
  ],
  [
    'no version in particular',
    { version_policy: { specific: {} } },
    'version_policy.specific.versions',
    'names no version',
  ],
  [
    'a version that is not there',
    { version_policy: { specific: { versions: [1, 2] } } },
    'version_policy.specific.versions[1]',
    'has no version folder, got 2',
  ],
  [
    'version 0',
    { version_policy: { specific: { versions: [0] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got 0',
  ],
  [
    'version -1',
    { version_policy: { specific: { versions: [-1] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got -1',
  ],
  [
    'labels that are not there',
    { output: [output({ label_filename: 'labels.txt' })] },
    'output[0].label_filename',
    'names a file that is not in the model folder',
  ],
  [
    'labels elsewhere',
    { output: [output({ label_filename: '../labels.txt' })] },
    'output[0].label_filename',
    'leaves the model folder',
  ],
  [
    'a parameter that leaves the folder',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    'parameters.p.string_value',
    'leaves the model folder',
  ],
  [
    'a parameter that names no file',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    'parameters.p.string_value',
    'names a file that is not in the model folder',
  ],
];
