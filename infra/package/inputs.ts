import * as pulumi from '@pulumi/pulumi';

/** The arguments of one component as the engine passes them. */
export interface Inputs {
  /** Those that are known. */
  values: Record<string, unknown>;
  /** All that were given, with their dependencies, and secret if they were. */
  outputs: Readonly<Record<string, pulumi.Output<unknown>>>;
  /** Names of those that a preview does not know yet. */
  unknown: string[];
  /** Names of those that are secret. */
  secret: ReadonlySet<string>;
  /** Resources that some of them are outputs of. */
  dependencies: pulumi.Resource[];
}

/** Members of an output that the SDK has but does not declare. */
interface OutputState {
  isKnown: Promise<boolean>;
  promise: () => Promise<unknown>;
  allResources: () => Promise<Set<pulumi.Resource>>;
}

/** Waits for the values of the arguments, because most of them decide which objects there are. */
export async function readInputs(given: pulumi.Inputs): Promise<Inputs> {
  const inputs: Inputs = { values: {}, outputs: {}, unknown: [], secret: new Set(), dependencies: [] };
  const secret = new Set<string>();
  const outputs: Record<string, pulumi.Output<unknown>> = {};
  for (const [name, input] of Object.entries(given)) {
    const output = pulumi.output(input as pulumi.Input<unknown>);
    const state = output as unknown as OutputState;
    if (await state.isKnown) inputs.values[name] = await state.promise();
    else inputs.unknown.push(name);
    if (await pulumi.isSecret(output)) secret.add(name);
    inputs.dependencies.push(...(await state.allResources()));
    outputs[name] = output;
  }
  return { ...inputs, outputs, secret };
}
