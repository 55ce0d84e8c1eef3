import type { Check } from './check';
import { bucketCheck } from './check-bucket';
import { certificateCheck } from './check-certificate';
import { ciRolesCheck, clusterAccessCheck, clusterNameCheck, logGroupCheck } from './check-cluster';
import { driverCheck } from './check-driver';
import { eksVersionCheck } from './check-eks-version';
import { instanceTypesCheck, quotasCheck } from './check-gpus';
import { identityCheck } from './check-identity';
import { imagesCheck } from './check-images';
import { nodeStorageCheck, podRoomCheck } from './check-machines';
import { networkQuotasCheck } from './check-network';
import { ownAddressCheck } from './check-own-address';
import { oidcProviderCheck, subjectsCheck } from './check-publishers';
import { rolesCheck, spotRoleCheck } from './check-roles';
import { secretsCheck, stateCheck } from './check-state';
import { subnetsCheck } from './check-subnets';
import { regionCheck, zonesCheck } from './check-zones';

/** All checks of `npm run doctor`, in the order of the report. */
export const CHECKS: readonly Check[] = [
  identityCheck,
  regionCheck,
  stateCheck,
  secretsCheck,
  zonesCheck,
  subnetsCheck,
  instanceTypesCheck,
  quotasCheck,
  podRoomCheck,
  nodeStorageCheck,
  driverCheck,
  networkQuotasCheck,
  eksVersionCheck,
  clusterNameCheck,
  logGroupCheck,
  clusterAccessCheck,
  ciRolesCheck,
  ownAddressCheck,
  oidcProviderCheck,
  subjectsCheck,
  rolesCheck,
  spotRoleCheck,
  bucketCheck,
  certificateCheck,
  imagesCheck,
];
