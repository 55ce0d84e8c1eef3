import * as pulumi from '@pulumi/pulumi';

/** The arguments of one component as the engine passes them. */
export interface Inputs {
  /** Those that are known. */
  values: Record<string, unknown>;
  /**
   * All that were given, split into outputs of texts, numbers and booleans, with their dependencies, and secret if they
   * were. Only a list or mapping that a preview does not know yet is an output itself.
   */
  parts: Record<string, unknown>;
  /** Names of those of which a preview does not know some part yet. */
  unknown: string[];
  /** Names of those of which some part is secret. */
  secret: Set<string>;
  /** Resources that some of them are outputs of. */
  dependencies: pulumi.Resource[];
}

/** Members of an output that the SDK has but does not declare. */
interface OutputState {
  isKnown: Promise<boolean>;
  promise: () => Promise<unknown>;
  allResources: () => Promise<Set<pulumi.Resource>>;
}

const stateOf = (output: pulumi.Output<unknown>): OutputState => output as unknown as OutputState;

/** @returns undefined for a value that a preview does not know yet */
const valueOf = async (output: pulumi.Output<unknown>): Promise<unknown> =>
  (await stateOf(output).isKnown) ? stateOf(output).promise() : undefined;

/** Waits for the values of the arguments, because most of them decide which objects there are. */
export async function readInputs(given: pulumi.Inputs): Promise<Inputs> {
  const inputs: Inputs = { values: {}, parts: {}, unknown: [], secret: new Set(), dependencies: [] };
  for (const [name, input] of Object.entries(given)) {
    const output = pulumi.output(input as pulumi.Input<unknown>);
    const isKnown = await stateOf(output).isKnown;
    const value = await valueOf(output);
    // An empty text stands for a missing value, as in a stack file.
    if (isKnown && (value === undefined || value === null || value === '')) continue;
    if (isKnown) inputs.values[name] = value;
    else inputs.unknown.push(name);
    if (await pulumi.isSecret(output)) inputs.secret.add(name);
    inputs.dependencies.push(...(await stateOf(output).allResources()));
    inputs.parts[name] = await split(input);
  }
  return inputs;
}

/** Returns outputs of the members of a list or mapping instead of an output of the whole. A null stays a null. */
async function split(input: unknown): Promise<unknown> {
  const whole = pulumi.Output.isInstance(input) ? (input as pulumi.Output<Record<string, unknown>>) : undefined;
  const value = whole === undefined ? input : await valueOf(whole);
  if (value === null) return null;
  if (!isMapping(value) && !Array.isArray(value)) return pulumi.output(input);
  const members = Object.entries(value).map(
    async ([key, member]) => [key, await split(whole === undefined ? member : whole.apply((all) => all[key]))] as const,
  );
  const entries = await Promise.all(members);
  return Array.isArray(value) ? entries.map(([, member]) => member) : Object.fromEntries(entries);
}

/** Whether a value has members by name. Outputs, files and unknown values are objects of other classes. */
export const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
