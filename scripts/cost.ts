import { estimateCost, type CostEstimate } from '../infra/cost/cost';
import { readSettings } from '../infra/settings';
import { stackFile } from '../infra/settings/stack-file';
import { EXIT, parseFlagsAndArguments, parseInteger, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { formatTable } from '../src/core/format';
import { paths } from '../src/core/paths';

const FLAGS = {
  'models-gib': { type: 'string', default: '50' },
  'stack-dir': { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Estimates the monthly cost of a stack from its stack file and the prices in infra/cost/prices.ts. Does not call AWS.

  npm run cost -- STACK [options]

  STACK              name of the stack; its settings are in Pulumi.STACK.yaml
  --models-gib N     size of the models in the bucket, including old versions, in GiB (default: ${FLAGS['models-gib'].default})
  --stack-dir DIR    folder of Pulumi.yaml (default: the project)
  --json             print the estimate as JSON
  --help             print this text

Examples:
  npm run cost -- staging
  npm run cost -- prod --models-gib 200                 # with 200 GiB of models in the bucket
  npm run cost -- prod --stack-dir ../serving --json    # a stack of another folder, for a script

Exit codes: 0 done, 1 failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => Promise.resolve().then(() => cost(argv)));
}

function cost(argv: readonly string[]): number {
  const { flags, positionals } = parseFlagsAndArguments(argv, FLAGS, 1, ['STACK']);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const [stack] = positionals;
  if (stack === undefined)
    throw new UsageError('no stack is given', { hint: 'add its name, for example: npm run cost -- staging' });
  const modelsGiB = parseInteger('models-gib', flags['models-gib'], 0, 1_000_000);
  const settings = readSettings(stackFile(stack, flags['stack-dir'] ?? paths.project));
  const estimate = estimateCost(settings, modelsGiB);
  process.stdout.write(flags.json ? `${JSON.stringify(estimate, null, 2)}\n` : describe(estimate));
  return EXIT.ok;
}

function describe(estimate: CostEstimate): string {
  const { items, usdPerMonth, onDemandUsdPerMonth, mostUsdPerMonth, limitUsdPerMonth, notes } = estimate;
  const rows = [
    ...items.map(({ item, basis, usdPerMonth: usd }) => [item, basis, dollars(usd)]),
    ['all', 'with the configured number of replicas', dollars(usdPerMonth)],
    ...(onDemandUsdPerMonth === usdPerMonth
      ? []
      : [['all, without spot', 'the same nodes at on-demand prices', dollars(onDemandUsdPerMonth)]]),
    ...(mostUsdPerMonth === usdPerMonth
      ? []
      : [['all, scaled up', 'with the maximum number of replicas', dollars(mostUsdPerMonth)]]),
    ...(limitUsdPerMonth === mostUsdPerMonth
      ? []
      : [['all, upper bound', 'with every pool at its limit, at on-demand prices', dollars(limitUsdPerMonth)]]),
  ];
  return [
    `Stack ${estimate.stack}, cost of one month at the prices of ${estimate.pricesAsOf} in ${estimate.pricesRegion}:`,
    '',
    formatTable(['item', 'for', 'US dollars'], rows),
    '',
    ...notes,
    '',
  ].join('\n');
}

const dollars = (value: number): string => value.toFixed(2);
