import { estimateCost, PRICES_AS_OF, PRICES_REGION } from '../infra/cost';
import { readSettings } from '../infra/settings';
import { stackFile } from '../infra/settings/stack-file';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { formatTable } from '../src/core/format';
import { paths } from '../src/core/paths';

const FLAGS = {
  'stack-dir': { value: 'DIR', help: 'folder of Pulumi.yaml (default: the project)' },
  json: { help: 'print the estimate as JSON' },
} as const;

const LINE = {
  name: 'npm run cost',
  about:
    'Estimates the monthly cost of a stack from its stack file and prices of AWS that this package has. Does not call AWS.',
  arguments: { '[STACK]': 'name of the stack; its settings are in Pulumi.STACK.yaml' },
  flags: FLAGS,
  notes: `Examples:
  npm run cost -- staging
  npm run cost -- prod --stack-dir ../serving --json    # a stack of another folder, for a script

Exit codes: 0 done, 1 failed, 2 wrong command line.`,
};

export const main = command(LINE, (flags, [stack]) => {
  if (stack === undefined)
    throw new UsageError('no stack is given', { hint: 'add its name, for example: npm run cost -- staging' });
  const estimate = estimateCost(readSettings(stackFile(stack, flags['stack-dir'] ?? paths.project)));
  const { items, usdPerMonth, limitUsdPerMonth, notes } = estimate;
  if (flags.json) {
    const prices = { stack, pricesAsOf: PRICES_AS_OF, pricesRegion: PRICES_REGION };
    process.stdout.write(`${JSON.stringify({ ...prices, ...estimate }, null, 2)}\n`);
    return EXIT.ok;
  }
  const rows = [
    ...items.map(({ item, basis, usdPerMonth: usd }) => [item, basis, usd.toFixed(2)]),
    ['all', 'with the configured number of replicas', usdPerMonth.toFixed(2)],
    ['all, upper bound', 'with every pool at its limit, at on-demand prices', limitUsdPerMonth.toFixed(2)],
  ];
  const title = `Stack ${stack}, cost of one month at the prices of ${PRICES_AS_OF} in ${PRICES_REGION}:`;
  const table = formatTable(['item', 'for', 'US dollars'], rows);
  process.stdout.write([title, '', table, '', ...notes, ''].join('\n'));
  return EXIT.ok;
});
