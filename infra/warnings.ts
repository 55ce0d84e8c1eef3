import { capacityWarning } from './capacity';
import { supportWarning } from './cluster/eks-versions';
import type { Settings } from './settings/types';

/** Address ranges that are reserved for documentation. */
const EXAMPLE_RANGES = /^(192\.0\.2|198\.51\.100|203\.0\.113)\./;

/**
 * Warnings about settings that are valid but probably unintended.
 * @param today a parameter for tests
 */
export function warningsOf(settings: Settings, today: Date): string[] {
  const { cluster, publisher, gpuNodePools } = settings;
  const capacity = capacityWarning(settings);
  const tooFewGpus = capacity === undefined ? [] : [capacity];
  if (cluster.kind === 'existing') return tooFewGpus;
  const { publicAccessCidrs: from, network, version } = cluster;
  const examples = from.filter((cidr) => EXAMPLE_RANGES.test(cidr));
  const support = supportWarning(version, today);
  return [
    ...tooFewGpus,
    ...(support === undefined ? [] : [support]),
    ...(examples.length > 0
      ? [
          `publicAccessCidrs has ${examples.join(', ')}, which is an example: set it to the addresses that you run pulumi from`,
        ]
      : []),
    ...(from.length === 0 && network.kind === 'create'
      ? [
          'publicAccessCidrs is empty: only from inside of the network that is made now can its cluster be reached, and a "pulumi up" from elsewhere ends once the cluster is there. Name the addresses that you run pulumi from: pulumi config set --path "publicAccessCidrs[0]" ADDRESS/32',
        ]
      : []),
    ...(publisher?.subjects.some((subject) => subject.includes('-your-organisation-')) === true
      ? ['publisherSubjects names -your-organisation-, which is an example: nobody can publish with the role']
      : []),
    ...gpuNodePools
      .filter(({ mechanism, minimumNodes, maximumNodes }) => {
        return mechanism === 'managed-node-group' && minimumNodes < maximumNodes;
      })
      .map(({ name, minimumNodes, maximumNodes }) => {
        return `pool ${name} is made with ${minimumNodes} nodes, and nothing here ever adds any, up to ${maximumNodes} or otherwise: set minimumNodes to what is needed, or run an autoscaler of your own`;
      }),
  ];
}
