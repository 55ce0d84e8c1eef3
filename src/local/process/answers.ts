const TIMEOUT_MS = 2000;

/**
 * Whether a server answers at `url`, for ManagedProcess.untilReady.
 * @param isWell whether the answer shows that the server is ready; default: any successful status
 */
export async function answers(
  url: string,
  isWell: (answer: Response) => boolean | Promise<boolean> = ({ ok }) => ok,
): Promise<boolean> {
  try {
    return await isWell(await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) }));
  } catch {
    return false;
  }
}
