import { estimateCost, type CostEstimate } from '../infra/cost/cost';
import { readSettings } from '../infra/settings';
import { stackFile } from '../infra/settings/stack-file';
import { EXIT, parseFlagsAndArguments, parseInteger, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { formatTable } from '../src/core/format';
import { paths } from '../src/core/paths';

const HELP = `Estimates what a stack costs in a month, from its stack file and the prices in infra/cost/prices.ts. Asks AWS nothing.

  npm run cost -- STACK [options]

  STACK              a stack with a file of settings, Pulumi.STACK.yaml
  --models-gib N     models in the bucket, old versions included (default: 50)
  --stack-dir DIR    folder of Pulumi.yaml (default: this package)
  --json             as JSON
  --help

Exit codes: 0 done, 1 failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => Promise.resolve().then(() => cost(argv)));
}

function cost(argv: readonly string[]): number {
  const { flags, positionals } = parseFlagsAndArguments(
    argv,
    {
      'models-gib': { type: 'string', default: '50' },
      'stack-dir': { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
    1,
    ['STACK'],
  );
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const [stack] = positionals;
  if (stack === undefined) throw new UsageError('no stack is named', { hint: 'npm run cost -- staging' });
  const modelsGiB = parseInteger('models-gib', flags['models-gib'], 0, 1_000_000);
  const settings = readSettings(stackFile(stack, flags['stack-dir'] ?? paths.root));
  const estimate = estimateCost(settings, modelsGiB);
  process.stdout.write(flags.json ? `${JSON.stringify(estimate, null, 2)}\n` : describe(estimate));
  return EXIT.ok;
}

function describe(estimate: CostEstimate): string {
  const { items, usdPerMonth, mostUsdPerMonth, limitUsdPerMonth, notes } = estimate;
  const rows = [
    ...items.map(({ item, basis, usdPerMonth: usd }) => [item, basis, dollars(usd)]),
    ['all', 'with the usual number of servers', dollars(usdPerMonth)],
    ...(mostUsdPerMonth === usdPerMonth
      ? []
      : [['all, scaled up', 'with as many servers as there may be', dollars(mostUsdPerMonth)]]),
    ...(limitUsdPerMonth === mostUsdPerMonth
      ? []
      : [['all, upper bound', 'with each pool at its limit, at on-demand prices', dollars(limitUsdPerMonth)]]),
  ];
  return [
    `Stack ${estimate.stack}, a month of serving, at prices of ${estimate.pricesAsOf} in ${estimate.pricesRegion}:`,
    '',
    formatTable(['item', 'for', 'US dollars'], rows),
    '',
    ...notes,
    '',
  ].join('\n');
}

const dollars = (value: number): string => value.toFixed(2);
