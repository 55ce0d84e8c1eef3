/** One sample of an instant vector. */
interface Sample {
  labels: Labels;
  value: number;
}

type Labels = Readonly<Record<string, string>>;
type Value = number | readonly Sample[];
type Expression = (now: number) => Value;

interface Series {
  labels: Labels;
  /** Oldest first, in seconds; those of the last RETENTION_SECONDS. */
  samples: { at: number; value: number }[];
  /** A failed scrape, or the end of a target, ends the series until its next sample. */
  stale: boolean;
}

const RETENTION_SECONDS = 900;

/** A database of time series which evaluates the part of PromQL that the queries of the autoscaler use. */
export class Prometheus {
  private readonly metrics = new Map<string, Map<string, Series>>();

  add(at: number, metric: string, labels: Labels, value: number): void {
    const byLabels = this.metrics.get(metric) ?? new Map<string, Series>();
    this.metrics.set(metric, byLabels);
    const key = keyOf(labels);
    const series = byLabels.get(key) ?? { labels, samples: [], stale: false };
    byLabels.set(key, series);
    series.samples.push({ at, value });
    series.stale = false;
    if ((series.samples[0]?.at ?? at) < at - RETENTION_SECONDS) series.samples.shift();
  }

  /** Ends the series of a target. */
  end(metrics: (metric: string) => boolean, pod: string): void {
    for (const [metric, byLabels] of this.metrics)
      if (metrics(metric)) for (const series of byLabels.values()) if (series.labels['pod'] === pod) series.stale = true;
  }

  /** Deletes the series of a pod that does not exist any more. */
  delete(pod: string): void {
    for (const byLabels of this.metrics.values())
      for (const [key, series] of byLabels) if (series.labels['pod'] === pod) byLabels.delete(key);
  }

  compile(query: string): (now: number) => readonly Sample[] {
    const expression = new Parser(query, (metric) => this.metrics.get(metric)).parse();
    return (now) => vector(expression(now));
  }
}

const keyOf = (labels: Labels): string => {
  let key = '';
  for (const name in labels) key += `${name}=${labels[name] ?? ''},`;
  return key;
};

const vector = (value: Value): readonly Sample[] =>
  typeof value === 'number' ? [{ labels: {}, value }] : value;

const OPERATORS: Record<string, (a: number, b: number) => number | undefined> = {
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '>': (a, b) => (a > b ? a : undefined),
  '==': (a, b) => (a === b ? a : undefined),
};

const PRECEDENCE = [['or'], ['>', '=='], ['+', '-'], ['*', '/']];

const AGGREGATIONS: Record<string, (values: number[]) => number> = {
  sum: (values) => values.reduce((total, value) => total + value, 0),
  avg: (values) => values.reduce((total, value) => total + value, 0) / values.length,
  max: (values) => Math.max(...values),
  count: (values) => values.length,
  group: () => 1,
};

/** Functions of the samples in a window of `range` seconds that ends now. */
const OVER_TIME: Record<string, (samples: Series['samples'], range: number, now: number) => number | undefined> = {
  rate: extrapolatedRate,
  min_over_time: (samples) => Math.min(...samples.map(({ value }) => value)),
  avg_over_time: (samples) => samples.reduce((total, { value }) => total + value, 0) / samples.length,
};

/** After extrapolatedRate of promql/functions.go of Prometheus 3. */
function extrapolatedRate(samples: Series['samples'], range: number, now: number): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || first === last) return undefined;
  const increase = last.value - first.value;
  const sampled = last.at - first.at;
  const between = sampled / (samples.length - 1);
  const beyond = (gap: number): number => (gap >= 1.1 * between ? between / 2 : gap);
  const untilZero = increase > 0 ? (sampled * first.value) / increase : Infinity;
  const before = Math.min(beyond(first.at - (now - range)), untilZero);
  return (increase * (sampled + before + beyond(now - last.at))) / sampled / range;
}

class Parser {
  private readonly tokens: string[];
  private position = 0;

  constructor(
    query: string,
    private readonly find: (metric: string) => ReadonlyMap<string, Series> | undefined,
  ) {
    this.tokens = query.match(/[a-z_]\w*|[\d.]+|"[^"]*"|==|\S/gi) ?? [];
  }

  parse(): Expression {
    const expression = this.binary(0);
    if (this.position < this.tokens.length) throw new Error(`Cannot parse ${this.tokens.slice(this.position).join(' ')}`);
    return expression;
  }

  private accept(token: string): boolean {
    if (this.tokens[this.position] !== token) return false;
    this.position += 1;
    return true;
  }

  private next(): string {
    return this.tokens[this.position++] ?? '';
  }

  private binary(level: number): Expression {
    const operators = PRECEDENCE[level];
    if (operators === undefined) return this.primary();
    let left = this.binary(level + 1);
    while (operators.includes(this.tokens[this.position] ?? '')) {
      const operator = this.next();
      left = operator === 'or' ? or(left, this.binary(level + 1)) : calculate(operator, left, this.binary(level + 1));
    }
    return left;
  }

  private list(): string[] {
    const names: string[] = [];
    this.accept('(');
    while (!this.accept(')')) if (!this.accept(',')) names.push(this.next());
    return names;
  }

  private primary(): Expression {
    const token = this.next();
    if (token === '(') {
      const inner = this.binary(0);
      this.accept(')');
      return inner;
    }
    if (/^[\d.]/.test(token)) return () => Number(token);
    const aggregation = AGGREGATIONS[token];
    if (aggregation !== undefined) {
      const by = this.accept('by') ? this.list() : [];
      return aggregate(aggregation, by, this.primary());
    }
    const over = OVER_TIME[token];
    if (over !== undefined || token === 'clamp_max') {
      this.accept('(');
      const argument = over === undefined ? this.binary(0) : this.selector(this.next(), over);
      const limit = this.accept(',') ? Number(this.next()) : Infinity;
      this.accept(')');
      return over === undefined ? clamp(argument, limit) : argument;
    }
    return this.selector(token);
  }

  private selector(metric: string, over?: (typeof OVER_TIME)[string]): Expression {
    const matchers: [string, string][] = [];
    if (this.accept('{'))
      while (!this.accept('}')) {
        const name = this.next();
        if (!this.accept('=')) throw new Error(`Cannot parse the matcher of ${name}`);
        matchers.push([name, this.next().slice(1, -1)]);
        this.accept(',');
      }
    let range = 0;
    if (this.accept('[')) {
      range = Number(this.next()) * (this.next() === 'm' ? 60 : 1);
      this.accept(']');
    }
    const matches = ({ labels }: Series): boolean => matchers.every(([name, value]) => labels[name] === value);
    return (now) => {
      const found: Sample[] = [];
      for (const series of this.find(metric)?.values() ?? []) {
        if (!matches(series)) continue;
        const value =
          over === undefined
            ? series.stale ? undefined : series.samples.at(-1)?.value
            : over2(over, series.samples, range, now);
        if (value !== undefined) found.push({ labels: series.labels, value });
      }
      return found;
    };
  }
}

function over2(over: (typeof OVER_TIME)[string], samples: Series['samples'], range: number, now: number): number | undefined {
  let start = samples.length;
  while (start > 0 && (samples[start - 1]?.at ?? 0) > now - range) start -= 1;
  return start === samples.length ? undefined : over?.(samples.slice(start), range, now);
}

const or = (left: Expression, right: Expression): Expression => (now) => {
  const first = vector(left(now));
  const keys = new Set(first.map(({ labels }) => keyOf(labels)));
  return [...first, ...vector(right(now)).filter(({ labels }) => !keys.has(keyOf(labels)))];
};

const clamp = (inner: Expression, most: number): Expression => (now) =>
  vector(inner(now)).map(({ labels, value }) => ({ labels, value: Math.min(value, most) }));

function aggregate(of: (values: number[]) => number, by: readonly string[], inner: Expression): Expression {
  return (now) => {
    const groups = new Map<string, { labels: Labels; values: number[] }>();
    for (const { labels, value } of vector(inner(now))) {
      let key = '';
      for (const name of by) key += `${labels[name] ?? ''},`;
      const group = groups.get(key);
      if (group !== undefined) group.values.push(value);
      else groups.set(key, { labels: Object.fromEntries(by.map((name) => [name, labels[name] ?? ''])), values: [value] });
    }
    return [...groups.values()].map(({ labels, values }) => ({ labels, value: of(values) }));
  };
}

function calculate(operator: string, left: Expression, right: Expression): Expression {
  const apply = OPERATORS[operator];
  if (apply === undefined) throw new Error(`Unknown operator ${operator}`);
  return (now) => {
    const [a, b] = [left(now), right(now)];
    if (typeof a === 'number' && typeof b === 'number') return apply(a, b) ?? [];
    const results: Sample[] = [];
    const add = (labels: Labels, value: number | undefined): void => {
      if (value !== undefined) results.push({ labels, value });
    };
    if (typeof a === 'number') for (const { labels, value } of vector(b)) add(labels, apply(a, value));
    else if (typeof b === 'number') for (const { labels, value } of a) add(labels, apply(value, b));
    else {
      const others = new Map(b.map(({ labels, value }) => [keyOf(labels), value]));
      for (const { labels, value } of a) {
        const other = others.get(keyOf(labels));
        if (other !== undefined) add(labels, apply(value, other));
      }
    }
    return results;
  };
}
