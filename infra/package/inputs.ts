import * as pulumi from '@pulumi/pulumi';
import { fieldPath } from '../../src/core/problems';
import type { Field, Fields } from '../settings/fields';

/** Members of an output that the SDK has but does not declare. */
type State = { isKnown: Promise<boolean>; promise(): Promise<unknown>; allResources(): Promise<Set<pulumi.Resource>> };

/** Returns undefined for a value that a preview does not know yet. */
async function getValue(input: unknown): Promise<unknown> {
  const output = pulumi.output(input) as unknown as State;
  return (await output.isKnown) ? output.promise() : undefined;
}

/** Names and outputs of the members of a list or mapping; undefined for other values and for those not known yet. */
async function getMembers(input: unknown): Promise<[name: string, member: unknown][] | undefined> {
  const isOutput = pulumi.Output.isInstance(input);
  const all = isOutput ? await getValue(input) : input;
  if (typeof all !== 'object' || all === null) return undefined;
  const output = input as pulumi.Output<Record<string, unknown>>;
  return Object.entries(all).map(([name, member]) => [name, isOutput ? output.apply((all) => all[name]) : member]);
}

/** The arguments of a component, which the engine passes as values and outputs. */
export class Inputs {
  /** Paths of values that a preview does not know yet, although the objects depend on them. */
  readonly unknown: string[] = [];
  /** Paths of secrets that would be stored as clear text. */
  readonly secret: string[] = [];
  /** Resources that arguments are outputs of. */
  readonly dependencies: pulumi.Resource[] = [];

  /**
   * Waits for the values, because most of them decide which objects there are. Only a row with `input: true` stays an
   * output, if the value is secret or not known yet; the names and the number of its members must be known.
   */
  async read(fields: Fields, given: pulumi.Inputs): Promise<Record<string, unknown>> {
    this.dependencies.push(...(await (pulumi.output(given) as unknown as State).allResources()));
    return this.readMembers(fields, Object.entries(given), '');
  }

  private async readMembers(fields: Fields, members: [string, unknown][], path: string) {
    const read = members.map(
      async ([name, input]) => [name, await this.readField(fields[name], input, fieldPath(path, name))] as const,
    );
    return Object.fromEntries(await Promise.all(read));
  }

  private async readField(field: Field | undefined, input: unknown, path: string): Promise<unknown> {
    const [isKnown, isSecret] = await Promise.all([
      (pulumi.output(input) as unknown as State).isKnown,
      pulumi.isSecret(pulumi.output(input)),
    ]);
    if (isKnown && !isSecret) return getValue(input);
    const members = await getMembers(input);
    if (field?.kind === 'object' && members !== undefined) return this.readMembers(field.fields, members, path);
    const isShown = isSecret && field?.kind === 'stringMap' && field.secret === true;
    if (!isShown && field !== undefined && 'input' in field && (field.kind === 'string' || members !== undefined)) {
      if (field.kind === 'string') return input;
      return field.kind === 'stringMap' ? Object.fromEntries(members ?? []) : members?.map(([, member]) => member);
    }
    (isSecret ? this.secret : this.unknown).push(path);
    return undefined;
  }
}
