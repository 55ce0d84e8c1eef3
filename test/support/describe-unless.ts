/** CI sets it: on a machine that should have everything, a test that is left out is a failure. */
export const REQUIRE_ALL = 'REQUIRE_ALL_TESTS';

/**
 * Tests that need a program that some machines lack.
 * @param reason why they cannot run here; undefined if they can
 */
export function describeUnless(reason: string | undefined, title: string, body: () => void): void {
  if (reason === undefined) {
    describe(title, body);
    return;
  }
  if (process.env[REQUIRE_ALL] === '1') {
    test(`${title} can run here`, () => {
      throw new Error(`${REQUIRE_ALL}=1 is set, and this machine cannot run these tests: ${reason}`);
    });
    return;
  }
  process.stderr.write(`left out: ${title}: ${reason}\n`);
  describe.skip(`${title} (left out: ${reason})`, body);
}
