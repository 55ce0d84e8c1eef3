import { abortable } from '../../src/core/abort';
import { UserError } from '../../src/core/errors';
import { formatDuration } from '../../src/core/format';
import type { Settings } from '../settings';
import type { Aws } from './aws';

/** One line of the report. */
export interface Finding {
  level: 'ok' | 'warning' | 'error';
  /** The value found, in words. */
  found: string;
  /** The command or setting that fixes a warning or an error. */
  fix?: string | undefined;
}

export interface Context {
  settings: Settings;
  /** `aws:allowedAccountIds` of the stack file; empty if every account is allowed. */
  allowedAccounts: readonly string[];
  aws: Aws;
}

export interface Check {
  name: string;
  /** Whether it is an error if the check cannot be made. Otherwise it is a warning. */
  required?: true;
  /** Finds nothing if the check does not concern the stack. */
  run: (context: Context) => Finding[] | Promise<Finding[]>;
}

export interface ReportLine extends Finding {
  check: string;
}

export const ok = (found: string): Finding => ({ level: 'ok', found });
export const warning = (found: string, fix?: string): Finding => ({ level: 'warning', found, fix });
export const error = (found: string, fix?: string): Finding => ({ level: 'error', found, fix });

/** Time for one check, in ms. A request to a far region takes less than a second. */
const LIMIT_MS = 20_000;

/** Runs all checks at the same time. A check that fails or hangs does not affect the others. */
export async function examine(checks: readonly Check[], context: Context): Promise<ReportLine[]> {
  const lines = await Promise.all(
    checks.map(async (check) => (await run(check, context)).map((finding) => ({ check: check.name, ...finding }))),
  );
  return lines.flat();
}

async function run(check: Check, context: Context): Promise<Finding[]> {
  const limit = AbortSignal.timeout(LIMIT_MS);
  const unchecked = check.required === true ? error : warning;
  try {
    return await abortable(
      Promise.resolve().then(() => check.run(context)),
      limit,
    );
  } catch (cause) {
    if (cause === limit.reason) {
      return [
        unchecked(
          `not checked: no answer within ${formatDuration(LIMIT_MS)}`,
          'check the network, HTTPS_PROXY and AWS_ENDPOINT_URL, and run the doctor again',
        ),
      ];
    }
    if (!(cause instanceof UserError)) throw cause;
    return [unchecked(`not checked: ${cause.message}`, cause.hint)];
  }
}
