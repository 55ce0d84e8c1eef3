interface RuleGroup {
  name: string;
  interval?: string;
  rules: { record?: string; alert?: string; expr: string; for?: string; labels?: object; annotations?: object }[];
}

const MILLISECONDS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Ranges, steps of subqueries, and offsets. */
const DURATION = /(?<=\[|:|offset )(\d+)([smhd])/g;

/** Ages in seconds: `time() - METRIC > 300`. */
const AGE = /(time\(\) - [^<>]+ [<>] )(\d+)/g;

/** The rules of an hour for an hour divided by `factor`: their times are shorter, and their limits are the same. */
export function shortRules(groups: readonly RuleGroup[], factor: number): RuleGroup[] {
  const shorter = (text: string): string =>
    text.replace(DURATION, (_, count: string, unit: keyof typeof MILLISECONDS) => {
      return `${Math.ceil((Number(count) * MILLISECONDS[unit]) / factor)}ms`;
    });
  return groups.map((group) => ({
    ...group,
    interval: '1s',
    rules: group.rules.map((rule) => ({
      ...rule,
      expr: shorter(rule.expr).replace(AGE, (_, age: string, seconds: string) => `${age}${Number(seconds) / factor}`),
      ...(rule.for === undefined ? {} : { for: shorter(`[${rule.for}`).slice(1) }),
    })),
  }));
}
