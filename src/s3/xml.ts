const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const decode = (text: string): string =>
  text.replace(/&(?:#(x?[\da-f]+)|(\w+));/gi, (whole, code: string | undefined, name: string) =>
    code === undefined ? (ENTITIES[name] ?? whole) : String.fromCodePoint(Number(code.replace(/^x/i, '0x'))),
  );

/** The content of each complete element of this name. */
export const getElements = (xml: string, name: string): string[] =>
  Array.from(
    xml.matchAll(new RegExp(`<${name}(?: [^>]*)?>([^]*?)</${name}>`, 'g')),
    ([, content]) => content as string,
  );

/** The text of the first element of this name; undefined if it is missing or empty. */
export function getText(xml: string, name: string): string | undefined {
  const [text = ''] = getElements(xml, name);
  return text === '' ? undefined : decode(text);
}
