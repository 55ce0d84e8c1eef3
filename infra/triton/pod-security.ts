import { USER_ID } from './names';

/** The profile `restricted` of Pod Security, for every pod of this package. */
export const POD_SECURITY = {
  runAsNonRoot: true,
  runAsUser: USER_ID,
  runAsGroup: USER_ID,
  // Lets the user read the volumes and the token for the role.
  fsGroup: USER_ID,
  seccompProfile: { type: 'RuntimeDefault' },
} as const;

/** The same for each container, and a root file system that nothing can change. */
export const CONTAINER_SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
};
