import * as pulumi from '@pulumi/pulumi';
import { fieldPath, formatList, ProblemList } from '../../src/core/problems';
import { check, explained } from './check';
import { Children, TRANSFORM, type Transform } from './children';
import { COMPONENTS, type PackageComponent } from './components';
import { readInputs } from './inputs';

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
  const inputs = await readInputs(given);
  const early = inputs.unknown.filter((input) => !isLate(component, input, inputs.parts[input]));
  const problems = new ProblemList(`${kind} ${name}`);
  const build = early.length > 0 ? undefined : check(component, { name, inputs, problems });
  const children = new Children(inputs.parts[TRANSFORM] as Transform | undefined);
  const resource = new Component(type, name, {
    ...options,
    dependsOn: [...((options.dependsOn ?? []) as pulumi.Resource[]), ...inputs.dependencies],
    transformations: [children.watch],
  });
  const { urn } = resource;
  if (build === undefined) {
    await pulumi.log.warn(leftOut(name, early), resource);
    return { urn, state: resource.end({}) };
  }
  const outputs = await build({ parent: resource });
  explained(component, inputs, problems, () => {
    for (const unused of children.unused) {
      const message = `is set, but ${name} has no child resource of this kind`;
      problems.add(fieldPath(TRANSFORM, unused), message, { allowed: formatList(children.all) });
    }
  });
  return { urn, state: resource.end({ ...outputs, nodes: children.nodes }) };
}

/** Whether a preview can show the objects without the values in an argument. */
function isLate({ fields, late }: PackageComponent, name: string, part: unknown): boolean {
  if (name === TRANSFORM) return hasNames(part, 2);
  return late.includes(name) && hasNames(part, fields[name]?.kind === 'string' ? 0 : 1);
}

/** @param levels of lists and mappings whose lengths and names must be known */
const hasNames = (part: unknown, levels: number): boolean =>
  levels === 0 ||
  (!pulumi.Output.isInstance(part) && Object.values(part ?? {}).every((member) => hasNames(member, levels - 1)));

/** The warning of a preview without the objects of a component. */
const leftOut = (name: string, early: string[]): string =>
  `the preview leaves out the objects of ${name}, because ${early.join(', ')} is not known yet. ` +
  'Where they exist, the preview lists them as deleted, but "pulumi up" keeps them. ' +
  'If the preview fails because they are protected, keep the protection, and first create what gives the value: ' +
  '"pulumi up --target URN"';
