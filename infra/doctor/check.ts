import type { Settings } from '../settings';
import type { StateSettings } from '../settings/state';
import type { AwsAccount } from './account';
import type { Web } from './web';

export type Level = 'ok' | 'warning' | 'error';

/** One line of the report. */
export interface Finding {
  level: Level;
  /** The value found, in words. */
  found: string;
  /** The command or setting that fixes a warning or an error. */
  fix?: string | undefined;
}

export interface Context {
  settings: Settings;
  /** `aws:allowedAccountIds` of the stack file; empty if every account is allowed. */
  allowedAccounts: readonly string[];
  state: StateSettings;
  account: AwsAccount;
  web: Web;
  /** A parameter for tests. */
  today: Date;
}

/** A question, and how its answer is found. */
export interface Check<C = Context> {
  name: string;
  /** Whether it is an error if the check cannot be made. Otherwise it is a warning. */
  required?: true;
  run: (context: C) => Finding[] | Promise<Finding[]>;
}

export const ok = (found: string): Finding => ({ level: 'ok', found });
export const warning = (found: string, fix?: string): Finding => ({ level: 'warning', found, fix });
export const error = (found: string, fix?: string): Finding => ({ level: 'error', found, fix });

/**
 * Whether a resource has the tags of the stack (`aws:defaultTags`), so that the stack has probably created it. The state
 * of the stack, which knows for sure, would need Pulumi and its passphrase.
 */
export function isOwn(tags: Readonly<Record<string, string>>, settings: Settings): boolean {
  const own = Object.entries(settings.tags);
  return own.length > 0 && own.every(([key, value]) => tags[key] === value);
}
