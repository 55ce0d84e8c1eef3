const { default: Sequencer } = require('@jest/test-sequencer');

/** Files that take minutes, the longest first. A worker that starts one of them last would run alone at the end. */
const LONG = [
  'stack/stack-changes',
  'stack/aws/stack-prod',
  'stack/aws/stack-staging',
  'stack/aws/node-groups',
  'stack/aws/drift',
  'stack/package',
  'stack/aws/packages',
  'stack/gpu-pools',
  'stack/incidents',
  'real/models.slow',
  'real/trace-command.slow',
  'real/local-failures.slow',
  'real/local-watch.slow',
  'proof/replicas',
];

/** Starts the long files first. On a fresh clone Jest knows no durations, and would start the largest files first. */
module.exports = class extends Sequencer {
  sort(tests) {
    const rank = ({ path }) => {
      const index = LONG.findIndex((name) => path.endsWith(`/${name}.test.ts`));
      return index < 0 ? LONG.length : index;
    };
    return super.sort(tests).sort((one, other) => rank(one) - rank(other));
  }
};
