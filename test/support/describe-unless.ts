/** Tests that need what not every machine has: left out for `reason`, which is told, or run where there is none. */
export function describeUnless(reason: string | undefined, title: string, body: () => void): void {
  if (reason === undefined) {
    describe(title, body);
    return;
  }
  process.stderr.write(`left out: ${title}: ${reason}\n`);
  describe.skip(`${title} (left out: ${reason})`, body);
}
