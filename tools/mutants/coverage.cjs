// A set-up file of Jest: writes to MUTANTS_COVERAGE which mutants the test file reached.
const { appendFileSync } = require('node:fs');
const { env } = require('node:process');

/* global afterAll, expect */
afterAll(() => {
  const reached = Object.keys(globalThis.__stryker__?.mutantCoverage?.static ?? {});
  if (env.MUTANTS_COVERAGE === undefined) return;
  appendFileSync(env.MUTANTS_COVERAGE, `${JSON.stringify([expect.getState().testPath, reached])}\n`);
});
