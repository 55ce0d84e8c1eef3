/** A call of the AWS API. */
export interface Call {
  /** `s3:GetObject` */
  action: string;
  /** ARN of the resource. */
  resource: string;
  /** All condition keys of the request: for example, `s3:prefix` only if the request has a prefix. */
  context?: Readonly<Record<string, string>>;
}

type OneOrMore<T> = T | readonly T[];

/** A statement of an identity-based policy, which has no principal. */
export interface Statement {
  Sid?: string;
  Effect: 'Allow' | 'Deny';
  Action?: OneOrMore<string>;
  NotAction?: OneOrMore<string>;
  Resource?: OneOrMore<string>;
  NotResource?: OneOrMore<string>;
  Condition?: Readonly<Record<string, Readonly<Record<string, OneOrMore<string | boolean>>>>>;
}

export interface PolicyDocument {
  Version: string;
  Statement: OneOrMore<Statement>;
}

export type Decision = 'allowed' | 'not allowed' | 'denied';

const list = <T>(value: OneOrMore<T> | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? (value as readonly T[]) : [value as T];

/**
 * IAM's decision on a call of an identity with these policies: a deny statement overrides all allow statements.
 * @throws for elements of policies that this evaluator does not support, so that they cannot make a test pass
 */
export function decide(policies: readonly PolicyDocument[], call: Call): Decision {
  const matching = policies
    .flatMap(({ Statement }) => list(Statement))
    .filter((statement) => isAbout(statement, call) && meetsConditions(statement, call));
  if (matching.some(({ Effect }) => Effect === 'Deny')) return 'denied';
  return matching.length > 0 ? 'allowed' : 'not allowed';
}

function isAbout(statement: Statement, { action, resource }: Call): boolean {
  const { Action, NotAction, Resource, NotResource } = statement;
  if ((Action === undefined) === (NotAction === undefined)) throw new Error('one of Action and NotAction is expected');
  if ((Resource === undefined) === (NotResource === undefined)) {
    throw new Error('one of Resource and NotResource is expected');
  }
  // Actions are case-insensitive.
  const named = list(Action ?? NotAction).some((pattern) => isLike(pattern.toLowerCase(), action.toLowerCase()));
  const meant = list(Resource ?? NotResource).some((pattern) => isLike(pattern, resource));
  return named === (Action !== undefined) && meant === (Resource !== undefined);
}

type Test = (wanted: string, actual: string) => boolean;

const equals: Test = (wanted, actual) => wanted === actual;

/** Positive operators, which hold if one of the values matches. Their negations hold if none matches. */
const OPERATORS: Readonly<Record<string, Test>> = {
  StringEquals: equals,
  StringEqualsIgnoreCase: (wanted, actual) => wanted.toLowerCase() === actual.toLowerCase(),
  StringLike: isLike,
  ArnEquals: isLike,
  ArnLike: isLike,
  Bool: (wanted, actual) => wanted.toLowerCase() === actual.toLowerCase(),
};

function meetsConditions({ Condition = {} }: Statement, { context = {} }: Call): boolean {
  const actual = new Map(Object.entries(context).map(([key, value]) => [key.toLowerCase(), value]));
  return Object.entries(Condition).every(([operator, keys]) =>
    Object.entries(keys).every(([key, values]) =>
      meets(operator, list(values).map(String), actual.get(key.toLowerCase())),
    ),
  );
}

function meets(operator: string, wanted: readonly string[], actual: string | undefined): boolean {
  const literal = wanted.find((value) => value.includes('${'));
  if (literal !== undefined) throw new Error(`policy variables are not known here: ${literal}`);
  if (operator === 'Null') return wanted.includes(String(actual === undefined));
  const name = operator.replace(/IfExists$/, '');
  const plain = name.replace('Not', '');
  const test = OPERATORS[plain];
  if (test === undefined) throw new Error(`the condition operator ${operator} is not known here`);
  // If the request lacks the key, only operators with IfExists or Not hold.
  if (actual === undefined) return operator !== name || plain !== name;
  return wanted.some((value) => test(value, actual)) === (plain === name);
}

/** Matches a pattern in which * is any text, including slashes and colons, and ? is one character. */
function isLike(pattern: string, text: string): boolean {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`, 's').test(text);
}

/** All policies with one action, resource, condition value or statement removed, and the name of the removed part. */
export function smallerPolicies(policy: PolicyDocument): { without: string; policy: PolicyDocument }[] {
  const statements = list(policy.Statement);
  return statements.flatMap((statement, index) => {
    const replaced = (by: Statement | undefined): PolicyDocument => ({
      ...policy,
      Statement: statements.flatMap((other, i) => (i !== index ? [other] : by === undefined ? [] : [by])),
    });
    const where = statement.Sid ?? `statement ${index}`;
    const without = [{ without: where, policy: replaced(undefined) }];
    for (const field of ['Action', 'Resource'] as const) {
      const values = list(statement[field]);
      for (const value of values.length > 1 ? values : []) {
        const rest = values.filter((other) => other !== value);
        without.push({ without: `${where}: ${field} ${value}`, policy: replaced({ ...statement, [field]: rest }) });
      }
    }
    for (const [operator, keys] of Object.entries(statement.Condition ?? {})) {
      for (const [key, given] of Object.entries(keys)) {
        const values = list(given);
        for (const value of values.length > 1 ? values : []) {
          const rest = { ...keys, [key]: values.filter((other) => other !== value) };
          const Condition = { ...statement.Condition, [operator]: rest };
          const name = `${where}: ${operator} ${key} ${value}`;
          without.push({ without: name, policy: replaced({ ...statement, Condition }) });
        }
      }
    }
    return without;
  });
}
