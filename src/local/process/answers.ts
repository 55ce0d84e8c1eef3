const TIMEOUT_MS = 2000;

/**
 * Whether a server answers at `url`, for ManagedProcess.untilReady.
 * @param isWell whether it is the answer of one that is ready; default: any good status
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
