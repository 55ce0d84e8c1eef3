import { servedVersions, withServedVersions, type ModelConfig } from '../../../src/model';

const config = (version_policy?: ModelConfig['version_policy']): ModelConfig => ({
  name: 'm',
  backend: 'python',
  ...(version_policy === undefined ? {} : { version_policy }),
});

describe('the versions that are served', () => {
  it.each<[title: string, policy: ModelConfig['version_policy'], versions: number[], served: number[]]>([
    ['by default the newest', undefined, [2, 10, 9], [10]],
    ['of an empty policy the newest', {}, [2, 10, 9], [10]],
    ['the newest one', { latest: { num_versions: 1 } }, [2, 10, 9], [10]],
    ['the newest two', { latest: { num_versions: 2 } }, [2, 10, 9], [9, 10]],
    ['the newest of fewer', { latest: { num_versions: 5 } }, [2, 10], [2, 10]],
    ['all', { all: {} }, [2, 10, 9], [2, 9, 10]],
    ['certain ones', { specific: { versions: [10, 2, 10] } }, [2, 3, 10], [2, 10]],
    ['none of no folders', { all: {} }, [], []],
    // What the rules refuse is not to become "all".
    ['none of the newest 0', { latest: {} }, [1, 2], []],
  ])('are %s', (_title, policy, versions, served) => {
    expect(servedVersions(config(policy), versions)).toEqual(served);
    const named = served.length === 0 ? config(policy) : config({ specific: { versions: served } });
    expect(withServedVersions(config(policy), versions)).toEqual(named);
  });
});
