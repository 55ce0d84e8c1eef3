import { abortable } from '../../src/core/abort';
import { UserError } from '../../src/core/errors';
import { formatDuration } from '../../src/core/format';
import { error as failed, warning, type Check, type Finding } from './check';

export interface ReportLine extends Finding {
  check: string;
}

/** Time for one check, in ms. A request to a far region takes less than a second. */
const LIMIT_MS = 20_000;

/** Runs all checks at the same time. A check that fails or hangs does not affect the others. */
export async function examine<C>(
  checks: readonly Check<C>[],
  context: C,
  limitMs: number = LIMIT_MS,
): Promise<ReportLine[]> {
  const lines = await Promise.all(
    checks.map(async (check) => {
      const findings = await run(check, context, limitMs);
      return findings.map((finding) => ({ check: check.name, ...finding }));
    }),
  );
  return lines.flat();
}

async function run<C>(check: Check<C>, context: C, limitMs: number): Promise<Finding[]> {
  const limit = AbortSignal.timeout(limitMs);
  const unchecked = check.required === true ? failed : warning;
  try {
    return await abortable(
      Promise.resolve().then(() => check.run(context)),
      limit,
    );
  } catch (error) {
    if (error === limit.reason) {
      return [
        unchecked(
          `not checked: no answer within ${formatDuration(limitMs)}`,
          'check the network, HTTPS_PROXY and AWS_ENDPOINT_URL, and run the doctor again',
        ),
      ];
    }
    if (!(error instanceof UserError)) throw error;
    return [unchecked(`not checked: ${error.message}`, error.hint)];
  }
}
