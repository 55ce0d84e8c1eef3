import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { PolicyDocument } from './iam';

/** A policy of docs/iam, for a stack. Its state bucket and key have names that no request has. */
export function readCiPolicy(
  name: 'deploy' | 'preview',
  at: { account: string; region: string; stack: string },
): PolicyDocument & { Statement: readonly object[] } {
  const text = readFileSync(join(paths.root, 'docs', 'iam', `${name}.json`), 'utf8')
    .replaceAll('STATE-BUCKET', 'state-bucket')
    .replaceAll('STATE-KEY', 'state-key')
    .replaceAll('REGION', at.region)
    .replaceAll('ACCOUNT', at.account)
    .replaceAll('STACK', at.stack);
  return JSON.parse(text) as PolicyDocument & { Statement: readonly object[] };
}
