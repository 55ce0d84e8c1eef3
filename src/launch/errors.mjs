/** The command could not be started, for a reason that the user can act on. */
export class LaunchError extends Error {
  name = 'LaunchError';
}
