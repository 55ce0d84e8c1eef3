/** Runs `work` on every item, at most `limit` at a time. After the first failure no further item is started. */
export async function forEachLimited<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (let next = queue.next(); next.done !== true && !failed; next = queue.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: Math.min(limit, items.length) }, worker));
  for (const result of workers) if (result.status === 'rejected') throw result.reason;
}
