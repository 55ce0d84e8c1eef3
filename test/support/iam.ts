/** What somebody asks AWS for. */
export interface Call {
  /** `s3:GetObject` */
  action: string;
  /** ARN of what it is done to. */
  resource: string;
  /** Condition keys that the request has, and no others: `s3:prefix` is there only if the request has one. */
  context?: Readonly<Record<string, string>>;
}

type OneOrMore<T> = T | readonly T[];

/** A statement of a policy of an identity: it has no principal. */
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
 * What IAM says to a call of an identity with these policies: a statement that denies wins over all that allow.
 * @throws for what this evaluator does not know, so that no test passes because of it
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
  // Actions are the same in any case.
  const named = list(Action ?? NotAction).some((pattern) => isLike(pattern.toLowerCase(), action.toLowerCase()));
  const meant = list(Resource ?? NotResource).some((pattern) => isLike(pattern, resource));
  return named === (Action !== undefined) && meant === (Resource !== undefined);
}

type Test = (wanted: string, actual: string) => boolean;

const equals: Test = (wanted, actual) => wanted === actual;

/** Operators that hold if one of the values does; the others hold if none of theirs does. */
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
  // Without the key, IfExists and the operators with a Not hold, and no other does.
  if (actual === undefined) return operator !== name || plain !== name;
  return wanted.some((value) => test(value, actual)) === (plain === name);
}

/** Matches with * for any text, slashes and colons too, and ? for one character. */
function isLike(pattern: string, text: string): boolean {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`, 's').test(text);
}

/** Every policy that is smaller by one action, one resource, one condition's value or one statement, and what is gone. */
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
