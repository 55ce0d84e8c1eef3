import { compareStorage, STORAGE_FIX } from '../gpu/node-storage';
import { formatRoom, getPodRoom, getReplicaRoom } from '../settings/gpu-node-pools';
import { ok, warning, type Check } from './check';

const NO_POOLS = [ok('not checked: the stack has no GPU node pools')];

/** The cores and memory of a replica beside those of a node. Settings with too small instance types are refused before. */
export const podRoomCheck: Check = {
  name: 'pod room',
  run: ({ settings: { gpuNodePools: pools, triton } }) => {
    if (pools.length === 0) return NO_POOLS;
    const needed = formatRoom(getReplicaRoom(triton));
    return pools.map((pool) => {
      const rooms = pool.instanceTypes.map((type) => `${type} has ${formatRoom(getPodRoom(pool, type))}`);
      return ok(`pool ${pool.name}: a replica needs ${needed}; for pods, ${rooms.join(', ')}`);
    });
  },
};

/** Whether images and models are on local NVMe storage. */
export const nodeStorageCheck: Check = {
  name: 'local storage',
  run: ({ settings: { gpuNodePools: pools } }) => {
    if (pools.length === 0) return NO_POOLS;
    return pools.map((pool) => {
      const { fits, found } = compareStorage(pool);
      return fits === false ? warning(found, STORAGE_FIX) : ok(found);
    });
  },
};
