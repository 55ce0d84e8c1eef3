// Jest's sandbox makes each access to a global slow.
const { max, min } = Math;
const NEVER = Infinity;

export type Labels = Readonly<Record<string, string>>;

interface Sample {
  labels: Labels;
  /** The labels as a text. */
  key: string;
  value: number;
}

/** Computes a number, or an instant vector. */
type Expression = (now: number) => number | Sample[];

/** One time series: its samples with their times in seconds, oldest first. */
export class Series {
  readonly key: string;
  private readonly samples: { at: number; value: number }[] = [];
  /** A scrape failed, so the series has no value until the next one. */
  isStale = false;

  constructor(readonly labels: Labels) {
    this.key = keyOf(labels);
  }

  add(at: number, value: number): void {
    this.isStale = false;
    this.samples.push({ at, value });
    if (this.samples.length > 60) this.samples.splice(0, 30);
  }

  at(now: number): number | undefined {
    return this.isStale ? undefined : this.samples.findLast(({ at }) => at <= now)?.value;
  }

  within(now: number, seconds: number): { at: number; value: number }[] {
    const before = this.samples.findLastIndex(({ at }) => at <= now - seconds);
    return this.samples.slice(before + 1);
  }
}

type Samples = ReturnType<Series['within']>;

const keyOf = (labels: Labels): string =>
  Object.keys(labels)
    .sort()
    .map((name) => `${name}=${labels[name] ?? ''},`)
    .join('');

const OPERATORS: Record<string, (a: number, b: number) => number | undefined> = {
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '+': (a, b) => a + b,
  '>': (a, b) => (a > b ? a : undefined),
  '==': (a, b) => (a === b ? a : undefined),
};

/** Operators of lower precedence first. */
const PRECEDENCE = [['or'], ['and'], ['>', '=='], ['+'], ['*', '/']];

const mean = (values: number[]): number => values.reduce((total, value) => total + value, 0) / values.length;

const AGGREGATIONS: Record<string, (values: number[]) => number> = {
  sum: (values) => mean(values) * values.length,
  avg: mean,
  max: (values) => max(...values),
  count: (values) => values.length,
  group: () => 1,
};

const OVER_TIME: Record<string, (samples: Samples, seconds: number, now: number) => number | undefined> = {
  rate: extrapolatedRate,
  avg_over_time: (samples) => mean(samples.map(({ value }) => value)),
  min_over_time: (samples) => min(...samples.map(({ value }) => value)),
  deriv: (samples) => {
    const [at, value] = [mean(samples.map((sample) => sample.at)), mean(samples.map((sample) => sample.value))];
    const covariance = mean(samples.map((sample) => (sample.at - at) * (sample.value - value)));
    return samples.length < 2 ? undefined : covariance / mean(samples.map((sample) => (sample.at - at) ** 2));
  },
};

/** After extrapolatedRate in promql/functions.go of Prometheus 3; no counter is reset here. */
function extrapolatedRate(samples: Samples, seconds: number, now: number): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || first === last) return undefined;
  const [increase, duration] = [last.value - first.value, last.at - first.at];
  const interval = duration / (samples.length - 1);
  const beyond = (gap: number): number => (gap >= 1.1 * interval ? interval / 2 : gap);
  const sinceZero = increase > 0 ? (duration * first.value) / increase : NEVER;
  const before = min(beyond(first.at - (now - seconds)), sinceZero);
  return (increase * (duration + before + beyond(now - last.at))) / duration / seconds;
}

/** A database of time series, which evaluates the part of PromQL that the queries of the autoscaler need. */
export class Prometheus {
  private readonly metrics = new Map<string, Set<Series>>();
  private readonly parts = new Map<string, Expression>();
  private tokens: string[] = [];

  create(metric: string, labels: Labels): Series {
    const series = new Series(labels);
    this.metrics.set(metric, (this.metrics.get(metric) ?? new Set()).add(series));
    return series;
  }

  delete(deleted: readonly Series[]): void {
    for (const all of this.metrics.values()) for (const series of deleted) all.delete(series);
  }

  /** @returns a function of the time in seconds, for the values with their labels */
  compile(query: string): (now: number) => Sample[] {
    this.tokens = query.match(/[a-z_]\w*|[\d.]+|"[^"]*"|==|=~|!~|\S/gi) ?? [];
    const expression = this.binary(0);
    if (this.tokens.length > 0) throw new Error(`Cannot parse ${this.tokens.join(' ')}`);
    return (now) => vector(expression(now));
  }

  private accept(token: string): boolean {
    if (this.tokens[0] !== token) return false;
    this.tokens.shift();
    return true;
  }

  private next(): string {
    return this.tokens.shift() ?? '';
  }

  private binary(level: number): Expression {
    const operators = PRECEDENCE[level];
    if (operators === undefined) return this.primary();
    let left = this.binary(level + 1);
    while (operators.includes(this.tokens[0] ?? '')) left = combine(this.next(), left, this.binary(level + 1));
    return left;
  }

  /** A part that occurs several times in the queries is computed once for each time. */
  private primary(): Expression {
    const before = this.tokens;
    this.tokens = [...before];
    const part = this.part();
    const text = before.slice(0, before.length - this.tokens.length).join(' ');
    const known = this.parts.get(text) ?? memoized(part);
    this.parts.set(text, known);
    return known;
  }

  private part(): Expression {
    const token = this.next();
    const aggregation = AGGREGATIONS[token];
    const overTime = OVER_TIME[token];
    if (/^\d/.test(token)) return () => Number(token);
    if (aggregation !== undefined) return aggregate(aggregation, this.accept('by') ? this.names() : [], this.primary());
    if (overTime === undefined && token !== 'clamp_max' && token !== '(') return this.selector(token);
    if (token !== '(') this.accept('(');
    const inner = overTime === undefined ? this.binary(0) : this.range(this.next(), overTime);
    const limit = this.accept(',') ? Number(this.next()) : NEVER;
    if (!this.accept(')')) throw new Error(`Cannot parse ${this.tokens.join(' ')}`);
    return limit === NEVER ? inner : combine('min', inner, () => limit);
  }

  private names(): string[] {
    const end = this.tokens.indexOf(')');
    return this.tokens.splice(0, end + 1).filter((token) => /\w/.test(token));
  }

  private selector(metric: string): Expression {
    const find = this.matching(metric);
    const offset = this.accept('offset') ? this.seconds() : 0;
    return (now) => find((series) => series.at(now - offset));
  }

  private range(metric: string, of: (typeof OVER_TIME)[string]): Expression {
    const find = this.matching(metric);
    this.accept('[');
    const seconds = this.seconds();
    this.accept(']');
    return (now) =>
      find((series) => {
        const samples = series.within(now, seconds);
        return samples.length === 0 ? undefined : of(samples, seconds, now);
      });
  }

  private seconds(): number {
    return Number(this.next()) * (this.next() === 'm' ? 60 : 1);
  }

  /** Matches `=`, and `=~` and `!~` with alternatives that are plain texts. */
  private matching(metric: string): (value: (series: Series) => number | undefined) => Sample[] {
    const matchers: { name: string; isEqual: boolean; values: string[] }[] = [];
    if (this.accept('{'))
      for (let name = this.next(); name !== '}'; name = this.next()) {
        if (name === ',') continue;
        const isEqual = this.next() !== '!~';
        matchers.push({ name, isEqual, values: this.next().slice(1, -1).split('|') });
      }
    const matches = ({ labels }: Series): boolean =>
      matchers.every(({ name, isEqual, values }) => values.includes(labels[name] ?? '') === isEqual);
    const matched = new WeakMap<Series, boolean>();
    return (of) => {
      const found: Sample[] = [];
      for (const series of this.metrics.get(metric) ?? []) {
        const isMatch = matched.get(series) ?? matches(series);
        matched.set(series, isMatch);
        const value = isMatch ? of(series) : undefined;
        if (value !== undefined) found.push({ labels: series.labels, key: series.key, value });
      }
      return found;
    };
  }
}

function memoized(expression: Expression): Expression {
  let last = NaN;
  let value: ReturnType<Expression> = [];
  return (now) => {
    if (now !== last) [last, value] = [now, expression(now)];
    return value;
  };
}

const EMPTY = { labels: {}, key: '' };

const vector = (value: number | Sample[]): Sample[] => (typeof value === 'number' ? [{ ...EMPTY, value }] : value);

function aggregate(of: (values: number[]) => number, by: readonly string[], inner: Expression): Expression {
  const names = new Map<string, Pick<Sample, 'labels' | 'key'>>();
  return (now) => {
    const groups = new Map<string, number[]>();
    for (const { labels, value } of vector(inner(now))) {
      const group = by.map((name) => labels[name] ?? '').join();
      const values = groups.get(group);
      if (values === undefined) groups.set(group, [value]);
      else values.push(value);
      if (names.has(group)) continue;
      const kept = Object.fromEntries(by.map((name) => [name, labels[name] ?? '']));
      names.set(group, { labels: kept, key: keyOf(kept) });
    }
    return [...groups].map(([group, values]) => ({ ...(names.get(group) ?? EMPTY), value: of(values) }));
  };
}

/** Samples of two vectors belong together if all their labels are equal. */
function combine(operator: string, left: Expression, right: Expression): Expression {
  const calculate = operator === 'min' ? min : OPERATORS[operator];
  return (now) => {
    const [a, b] = [left(now), right(now)];
    if (typeof a === 'number') return vector(b).flatMap((sample) => result(sample, calculate?.(a, sample.value)));
    if (typeof b === 'number') return a.flatMap((sample) => result(sample, calculate?.(sample.value, b)));
    if (operator === 'or') return [...a, ...b.filter(({ key }) => a.every((sample) => sample.key !== key))];
    const others = new Map(b.map(({ key, value }) => [key, value]));
    return a.flatMap((sample) => {
      const other = others.get(sample.key);
      return other === undefined
        ? []
        : result(sample, operator === 'and' ? sample.value : calculate?.(sample.value, other));
    });
  };
}

const result = (sample: Sample, value: number | undefined): Sample[] =>
  value === undefined ? [] : [{ ...sample, value }];
