import * as pulumi from '@pulumi/pulumi';
import { UserError, type Problem } from '../../src/core/errors';
import { formatList, ProblemList } from '../../src/core/problems';
import type { Fields } from '../settings/fields';
import { readFields } from '../settings/reader';
import { Children, type Transform } from './children';
import { COMPONENTS, type PackageComponent } from './components';
import { readInputs, type Inputs } from './inputs';

/** The component itself. Its child is the component of this program, with all objects. */
class Component extends pulumi.ComponentResource {
  constructor(type: string, name: string, options: pulumi.ComponentResourceOptions) {
    super(type, name, {}, options);
  }

  /** Reports that all children are there. */
  end(outputs: pulumi.Inputs): pulumi.Inputs {
    this.registerOutputs(outputs);
    return outputs;
  }
}

/**
 * Creates a component for a program in any language.
 * @param type `triton-serving:index:NAME`
 * @throws InputPropertiesError with all wrong arguments
 */
export async function construct(
  name: string,
  type: string,
  given: pulumi.Inputs,
  options: pulumi.ComponentResourceOptions,
): Promise<{ urn: pulumi.Output<string>; state: pulumi.Inputs }> {
  const kind = type.slice(type.lastIndexOf(':') + 1);
  const component = COMPONENTS[kind];
  if (component === undefined) throw new Error(`unknown component ${type}: ${formatList(Object.keys(COMPONENTS))}`);
  const { transform, ...rest } = given as Record<string, unknown>;
  const [inputs, { values, unknown: hidden }] = [await readInputs(rest), await readInputs({ transform })];
  const early = [...inputs.unknown.filter((input) => !component.late.includes(input)), ...hidden];
  const build = early.length > 0 ? undefined : check(component, { name, kind, inputs });
  const children = new Children(values['transform'] as Transform | undefined);
  const resource = new Component(type, name, {
    ...options,
    dependsOn: [...((options.dependsOn ?? []) as pulumi.Resource[]), ...inputs.dependencies],
    transformations: [children.watch],
  });
  const { urn } = resource;
  if (build === undefined) {
    const missing = `the preview leaves out the objects of ${name}, because ${early.join(', ')} is not known yet`;
    await pulumi.log.warn(missing, resource);
    return { urn, state: resource.end({}) };
  }
  const outputs = await build({ parent: resource });
  const [kinds] = children.unused;
  if (kinds !== undefined) {
    const reason = `is set, but ${name} has no child resource of this kind; allowed: ${formatList(children.all)}`;
    throw new pulumi.InputPropertyError({ propertyPath: `transform.${kinds}`, reason });
  }
  return { urn, state: resource.end({ ...outputs, nodes: children.nodes }) };
}

/** Reads the arguments, and returns the function that creates the objects. */
function check(
  { fields, late, prepare }: PackageComponent,
  { name, kind, inputs }: { name: string; kind: string; inputs: Inputs },
): ReturnType<PackageComponent['prepare']> {
  const problems = new ProblemList(`${kind} ${name}`);
  const isSecret = (field: string): boolean => {
    const of = fields[field];
    return inputs.secret.has(field) || (of !== undefined && 'secret' in of && of.secret === true);
  };
  const isUnknown = (field: string): boolean => inputs.unknown.includes(field);
  const known: Fields = Object.fromEntries(Object.entries(fields).filter(([field]) => !isUnknown(field)));
  try {
    const values = readFields(known, inputs.values, problems);
    const texts = late.map((field) => [field, inputs.outputs[field] as pulumi.Output<string> | undefined]);
    const given = { name, values, late: Object.fromEntries(texts) as Record<string, undefined>, secret: inputs.secret };
    const refuse = (): void => problems.refuse(`${problems.file} has invalid arguments`);
    // Contradictions between values can be checked only if each value is valid by itself.
    refuse();
    const build = prepare(given, problems);
    refuse();
    return build;
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
