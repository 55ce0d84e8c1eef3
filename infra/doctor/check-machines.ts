import { getNvmeGiB } from '../gpu/gpu-instance-types';
import { typesOnEbs, usesInstanceStore } from '../gpu/node-storage';
import { formatRoom, getPodRoom, getReplicaRoom } from '../settings/gpu-node-pools';
import { ok, warning, type Check, type Finding } from './check';

const NO_POOLS = [ok('not checked: the stack has no GPU node pools')];

/** The cores and memory of a replica beside those of a node. Settings with too small instance types are refused before. */
export const podRoomCheck: Check = {
  name: 'pod room',
  run: ({ settings: { gpuNodePools: pools, triton } }) => {
    const findings = pools.flatMap((pool): Finding[] => {
      const rooms = pool.instanceTypes.map((type) => ({ type, ...getPodRoom(pool, type) }));
      const [least] = rooms.sort((a, b) => a.memoryMiB - b.memoryMiB);
      if (least === undefined) return [];
      return [
        ok(
          `pool ${pool.name}: a replica needs ${formatRoom(getReplicaRoom(triton))}, and ${least.type} has ${formatRoom(least)} for pods`,
        ),
      ];
    });
    return Promise.resolve(findings.length === 0 ? NO_POOLS : findings);
  },
};

/** Whether images and models are on local NVMe storage. */
export const nodeStorageCheck: Check = {
  name: 'local storage',
  run: ({ settings: { gpuNodePools: pools } }) => {
    const findings = pools.map((pool): Finding => {
      const slow = typesOnEbs(pool);
      const [first] = pool.instanceTypes;
      if (first === undefined || usesInstanceStore(pool, first) === undefined) {
        return ok(`pool ${pool.name}: not checked, its node class decides`);
      }
      const sizes = (slow.length > 0 ? slow : pool.instanceTypes).map(
        (type) => `${type} ${getNvmeGiB(pool, type)} GiB`,
      );
      if (slow.length === 0) {
        return ok(`pool ${pool.name}: diskGiB (${pool.diskGiB}) fits on the local NVMe storage (${sizes.join(', ')})`);
      }
      return warning(
        `pool ${pool.name}: diskGiB (${pool.diskGiB}) is at least as large as the local NVMe storage (${sizes.join(', ')}), so images and models are on EBS`,
        'lower diskGiB, or remove these instance types',
      );
    });
    return Promise.resolve(findings.length === 0 ? NO_POOLS : findings);
  },
};
