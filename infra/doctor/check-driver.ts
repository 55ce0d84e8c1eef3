import { CAPABILITY_FIX, compareDriver, DRIVER_FIX, findOldGpus } from '../gpu/cuda';
import { COMPONENT_NAME } from '../settings/triton';
import { completeOptions } from '../triton/settings';
import { error, ok, warning, type Check } from './check';

/** Driver and GPUs of the nodes, against the CUDA of Triton's image. After an update, the nodes know it better. */
export const driverCheck: Check = {
  name: 'GPU driver',
  run: ({ settings: { gpuNodePools: pools, triton } }) => {
    if (triton.gpusPerPod === 0 || pools.length === 0) {
      return [ok('none needed: gpuNodePools is empty, or gpusPerPod is 0')];
    }
    const { image } = completeOptions(COMPONENT_NAME, triton);
    return pools.flatMap((pool) => {
      const { fits, found } = compareDriver(pool, image);
      const driver = fits === false ? warning(found, DRIVER_FIX) : ok(found);
      return [driver, ...findOldGpus(pool, image).map((old) => error(old, CAPABILITY_FIX))];
    });
  },
};
