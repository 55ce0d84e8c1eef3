import type { Value } from '../value';

/** The statements of an IAM or bucket policy, given as JSON text or as an object. */
export function statementsOf(policy: Value): Value[] {
  return policy.document().at('Statement').items();
}

/** Whether the statement is a list of things that are allowed. */
export const allows = (statement: Value): boolean => statement.at('Effect').is('Allow');

/** The principals of a statement, of every kind. */
export function principalsOf(statement: Value): Value[] {
  const principal = statement.at('Principal');
  return principal.text() === undefined ? principal.values().flatMap((value) => value.items()) : [principal];
}

/** What the conditions of a statement demand of `key`, by any operator; keys are the same in any case. */
export function conditionsOn(statement: Value, key: string): { operator: string; value: Value }[] {
  return statement
    .at('Condition')
    .values()
    .flatMap((operands) =>
      operands
        .values()
        .filter(({ path }) => path.toLowerCase() === `${operands.path}.${key}`.toLowerCase())
        .map((value) => ({ operator: lastKey(operands.path), value })),
    );
}

/** Operators have no dots in them. */
function lastKey(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}
