import * as pulumi from '@pulumi/pulumi';
import { UserError, type Problem } from '../../src/core/errors';
import { formatList, type ProblemList } from '../../src/core/problems';
import { readFields } from '../settings/reader';
import { checkTransform, TRANSFORM } from './children';
import type { PackageComponent } from './components';
import type { Inputs } from './inputs';

/** Reads the arguments, and returns the function that creates the objects. */
export function check(
  component: PackageComponent,
  { name, inputs, problems }: { name: string; inputs: Inputs; problems: ProblemList },
): ReturnType<PackageComponent['prepare']> {
  const given = { ...inputs.values };
  Reflect.deleteProperty(given, TRANSFORM);
  const known = Object.entries(component.fields).filter(([field]) => !inputs.unknown.includes(field));
  return explained(component, inputs, problems, () => {
    const values = readFields(Object.fromEntries(known), given, problems);
    refuseSecrets(component, inputs, problems);
    checkTransform(inputs.parts[TRANSFORM] ?? {}, problems);
    // Contradictions between values can be checked only if each value is valid by itself.
    refuse(problems);
    return component.prepare({ name, values, late: inputs.parts, secret: inputs.secret } as never, problems);
  });
}

const isSecretField = ({ fields }: PackageComponent, name: string): boolean => {
  const field = fields[name];
  return field !== undefined && 'secret' in field && field.secret === true;
};

/** Values that the program reads are no longer secret, and would be stored as clear text. */
function refuseSecrets({ fields, late }: PackageComponent, { secret }: Inputs, problems: ProblemList): void {
  const allowed = formatList([...late, TRANSFORM]);
  for (const name of Object.keys(fields).filter((name) => secret.has(name) && !late.includes(name))) {
    problems.add(name, 'is secret', {
      allowed: `a value that is not secret, because the state would contain it as clear text; secrets can be in ${allowed}`,
    });
  }
}

const refuse = (problems: ProblemList): void => problems.refuse(`${problems.file} has invalid arguments`);

/**
 * Runs a function that finds problems.
 * @throws InputPropertiesError with all of them
 */
export function explained<T>(component: PackageComponent, inputs: Inputs, problems: ProblemList, run: () => T): T {
  const isSecret = (name: string): boolean => inputs.secret.has(name) || isSecretField(component, name);
  try {
    const result = run();
    refuse(problems);
    return result;
  } catch (error) {
    if (!(error instanceof UserError) || error.problems.length === 0) throw error;
    throw new pulumi.InputPropertiesError({
      message: error.message,
      errors: error.problems.map((problem) => explain(problem, isSecret)),
    });
  }
}

/** The engine prints the value of each property that it finds by its path. */
function explain(
  { field = 'arguments', message, allowed, hint }: Problem,
  isSecret: (field: string) => boolean,
): { propertyPath: string; reason: string } {
  const hidden = isSecret(field.split(/[.[]/)[0] ?? '');
  const parts = [hidden ? 'is wrong' : message, allowed && `allowed: ${allowed}`, hidden ? undefined : hint];
  return {
    propertyPath: hidden ? `${field} (secret)` : field,
    reason: parts.filter((part) => part !== undefined).join('; '),
  };
}
