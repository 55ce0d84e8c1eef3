const TIMEOUT_MS = 2000;

/**
 * Whether a server answers at `url`, for ManagedProcess.untilReady.
 * @param isReady whether the answer shows that the server is ready; default: any successful status
 */
export async function isHealthy(
  url: string,
  isReady: (answer: Response) => boolean | Promise<boolean> = ({ ok }) => ok,
): Promise<boolean> {
  try {
    // A server that ends waits for open connections.
    const headers = { connection: 'close' };
    return await isReady(await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) }));
  } catch {
    return false;
  }
}
