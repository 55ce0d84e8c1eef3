/**
 * Tests that need a program that some machines lack. `npm test` fails if tests were skipped where REQUIRE_ALL_TESTS=1
 * is set, as in CI.
 * @param reason why they cannot run here; undefined if they can
 */
export function describeUnless(reason: string | undefined, title: string, body: () => void): void {
  if (reason === undefined) {
    describe(title, body);
    return;
  }
  process.stderr.write(`left out: ${title}: ${reason}\n`);
  describe.skip(`${title} (left out: ${reason})`, body);
}
