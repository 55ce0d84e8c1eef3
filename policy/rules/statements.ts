import type { Value } from '../value';

/** The statements of an IAM or bucket policy, which is JSON text or an object. */
export function getStatements(policy: Value): Value[] {
  return policy.document().at('Statement').items();
}

export const allows = (statement: Value): boolean => statement.at('Effect').is('Allow');

/** All principals of a statement, of any kind. */
export function getPrincipals(statement: Value): Value[] {
  const principal = statement.at('Principal');
  return principal.text() === undefined ? principal.values().flatMap((value) => value.items()) : [principal];
}

/**
 * The values that conditions of a statement require for `key`, with their operators. Condition keys are
 * case-insensitive.
 */
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

/** The last key of a path. Condition operators contain no dots. */
function lastKey(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}
