import * as pulumi from '@pulumi/pulumi';
import { formatList, ProblemList } from '../../src/core/problems';
import { readFields } from '../settings/reader';
import { asRunError } from '../run-error';
import { COMPONENTS } from './components';
import { Inputs } from './inputs';

/**
 * Creates a component for a program in any language.
 * @param type `triton-serving:index:NAME`
 * @throws RunError with all wrong arguments
 */
export async function construct(
  name: string,
  type: string,
  given: pulumi.Inputs,
  engineOptions: pulumi.ComponentResourceOptions,
): Promise<{ urn: pulumi.Output<string>; state: pulumi.Inputs }> {
  const kind = type.slice(type.lastIndexOf(':') + 1);
  const component = COMPONENTS[kind];
  if (component === undefined) throw new Error(`unknown component ${type}: ${formatList(Object.keys(COMPONENTS))}`);
  const { fields, outputs, create } = component;
  const inputs = new Inputs();
  const read = await inputs.read(fields, given);
  const dependsOn = [...((engineOptions.dependsOn ?? []) as pulumi.Resource[]), ...inputs.dependencies];
  const options = { ...engineOptions, dependsOn };
  if (inputs.unknown.length > 0) {
    const empty = new pulumi.ComponentResource(type, name, {}, options);
    await pulumi.log.warn(leftOut(name, inputs.unknown), empty);
    return { urn: empty.urn, state: {} };
  }
  const problems = new ProblemList(`${kind} ${name}`);
  for (const path of inputs.secret) {
    const allowed = 'a value that is not secret, because the state would contain it as clear text';
    problems.add(path, 'is secret', { allowed });
  }
  try {
    const values = readFields(fields, read, problems) as never;
    problems.refuse(`${problems.file} has invalid arguments`);
    const resource = await create({ name, values, options });
    const state = Object.keys(outputs).map((name) => [name, Reflect.get(resource, name) as unknown] as const);
    return { urn: resource.urn, state: Object.fromEntries(state) };
  } catch (error) {
    throw asRunError(error);
  }
}

const leftOut = (name: string, unknown: string[]): string =>
  `the preview leaves out the objects of ${name}, because ${unknown.join(', ')} is not known yet. ` +
  'Where they exist, the preview lists them as deleted, but "pulumi up" keeps them. ' +
  'If the preview fails because they are protected, keep the protection, and first create what gives the value: ' +
  '"pulumi up --target URN"';
