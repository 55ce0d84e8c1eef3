import type { AfterUpCheck } from './check';
import { driverCheck, nodesCheck, storageCheck } from './check-nodes';
import { imagePullCheck, replicasCheck, servingCheck } from './check-replicas';
import { targetsCheck } from './check-targets';

/** All checks of `npm run doctor -- --after-up`, in the order of the report. */
export const AFTER_UP_CHECKS: readonly AfterUpCheck[] = [
  nodesCheck,
  storageCheck,
  driverCheck,
  replicasCheck,
  imagePullCheck,
  servingCheck,
  targetsCheck,
];
