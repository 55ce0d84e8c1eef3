const { default: Sequencer } = require('@jest/test-sequencer');

/** Files that take minutes, the longest first. A worker that starts one of them last would run alone at the end. */
const LONG = [
  'e2e/stack-changes',
  'aws/stack-prod',
  'aws/stack-staging',
  'aws/node-groups',
  'aws/drift',
  'e2e/package',
  'aws/packages',
  'e2e/gpu-pools',
  'e2e/incidents',
  'system/models',
  'system/trace-command',
  'system/local-watch',
  'soak/replicas',
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
