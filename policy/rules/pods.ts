import type { Resource } from '../pack';
import type { Value } from '../value';

/** Path of the pod spec in the Kubernetes types that serve requests. */
const POD_SPEC: Readonly<Record<string, string>> = {
  'kubernetes:core/v1:Pod': 'spec',
  'kubernetes:apps/v1:Deployment': 'spec.template.spec',
  'kubernetes:apps/v1:StatefulSet': 'spec.template.spec',
  'kubernetes:apps/v1:DaemonSet': 'spec.template.spec',
};

export const POD_TYPES = Object.keys(POD_SPEC);

export const getPod = (resource: Resource): Value => resource.props.at(POD_SPEC[resource.type] ?? 'spec');

/** The containers that run Triton, recognized by their image, program or flags. */
export const getTritons = (resource: Resource): Value[] =>
  getPod(resource)
    .at('containers')
    .items()
    .filter(
      (container) =>
        /tritonserver/.test(container.at('image').text() ?? '') ||
        getWords(container).some((word) => /(^|\/)tritonserver$|^--model-repository=/.test(word.text() ?? '')),
    );

export const getWords = (container: Value): Value[] =>
  ['command', 'args'].flatMap((property) => container.at(property).items());
