import type { Field, Fields } from '../infra/settings/fields';
import { describeField } from '../infra/settings/project-config';
import { isRequired } from '../infra/settings/reader';
import { TRITON_SERVER_FIELDS } from '../infra/settings/triton-fields';

const WIDTH = 120;

const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

/** The file of the npm package with the arguments of TritonServer. */
export const tritonServerArgs = (): string =>
  `import type * as pulumi from '@pulumi/pulumi';\n\n${argumentTypes('TritonServerArgs', TRITON_SERVER_FIELDS, 'Arguments of TritonServer.')}`;

/**
 * Returns the TypeScript interfaces of the arguments of a component, with the fields of a table, which the component reads
 * with `readFields`. The sentence of each field is its JSDoc.
 * @param name of the interface
 */
function argumentTypes(name: string, fields: Fields, sentence: string): string {
  const nested: string[] = [];
  const typeOf = (member: string, field: Field): string => {
    const of = 'input' in field && field.input === true ? 'pulumi.Input<string>' : 'string';
    switch (field.kind) {
      case 'string':
        return of;
      case 'choice':
        return union(field.choices);
      case 'integer':
      case 'number':
        return 'number';
      case 'boolean':
        return 'boolean';
      case 'stringArray':
        if (field.choices !== undefined) return `(${union(field.choices)})[]`;
        return of === 'string' ? 'string[]' : `pulumi.Input<${of}[]>`;
      case 'stringMap':
        return `Record<string, ${of}>`;
      case 'object':
      case 'objectArray': {
        const isList = field.kind === 'objectArray';
        const type = `${capital(isList ? member.replace(/s$/, '') : member)}Args`;
        nested.push(argumentTypes(type, field.fields, field.description));
        return isList ? `${type}[]` : type;
      }
      default:
        return field satisfies never;
    }
  };
  const members = Object.entries(fields).map(
    ([member, field]) =>
      `${comment(describeArgument(field), '  ')}  ${member}${isRequired(field) ? ': ' : '?: '}${typeOf(member, field)}${isRequired(field) ? '' : ' | undefined'};\n`,
  );
  return [...nested, `${comment(sentence, '')}export interface ${name} {\n${members.join('')}}\n`].join('\n');
}

const union = (choices: readonly string[]): string => choices.map((choice) => `'${choice}'`).join(' | ');

/** The sentence with what the type does not say: the range of a number, and the default. */
function describeArgument(field: Field): string {
  const isMapping = field.kind === 'object' || field.kind === 'objectArray';
  const text = isMapping || field.kind === 'choice' ? field.description : describeField(field);
  const value = 'default' in field && !Array.isArray(field.default) ? field.default : undefined;
  return value === undefined ? text : `${text} Default: ${typeof value === 'string' ? value : JSON.stringify(value)}.`;
}

/** One line if it fits. */
function comment(text: string, indent: string): string {
  const escaped = text.replaceAll('*/', '*\\/');
  const line = `${indent}/** ${escaped} */\n`;
  if (line.length <= WIDTH + 1) return line;
  const lines = [''];
  for (const word of escaped.split(' ')) {
    const last = lines.at(-1) ?? '';
    if (`${indent} * ${last} ${word}`.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return `${indent}/**\n${lines.map((one) => `${indent} * ${one}\n`).join('')}${indent} */\n`;
}
