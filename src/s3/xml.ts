/** An element of an XML document: its text, or its children. */
export interface XmlElement {
  name: string;
  text: string;
  children: XmlElement[];
}

/** The text is not a complete XML document. */
export class MalformedXmlError extends Error {
  override readonly name = 'MalformedXmlError';
}

const NAME = /[A-Za-z_][\w:.-]*/y;
const ATTRIBUTES = /(?:\s+[A-Za-z_][\w:.-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'))*\s*/y;

/**
 * Parses the small part of XML that S3 uses (elements and text; attributes are skipped) and rejects everything else, in
 * particular truncated documents. Written here because a general parser takes ten times as long for a page of a
 * listing; the unit test compares the two.
 * @throws MalformedXmlError
 */
export function parseXml(text: string): XmlElement {
  const document: XmlElement = { name: '', text: '', children: [] };
  const open: XmlElement[] = [document];
  let parent = document;
  let at = 0;
  for (;;) {
    const next = text.indexOf('<', at);
    if (next !== at) parent.text += unescapeXml(next < 0 ? text.slice(at) : text.slice(at, next));
    if (next < 0) break;
    at = next + 1;
    const kind = text.charCodeAt(at);
    if (kind === 0x3f /* ? */) {
      at = getEnd(text, '?>', at);
    } else if (kind === 0x2f /* / */) {
      const end = getEnd(text, '>', at);
      if (open.length === 1 || text.slice(at + 1, end - 1).trimEnd() !== parent.name) malformed(at);
      // Ignore whitespace between elements.
      if (parent.children.length > 0) parent.text = '';
      open.pop();
      parent = open.at(-1) as XmlElement;
      at = end;
    } else {
      const element: XmlElement = { name: match(NAME, text, at), text: '', children: [] };
      at += element.name.length;
      if (text.charCodeAt(at) !== 0x3e) at += match(ATTRIBUTES, text, at).length;
      parent.children.push(element);
      if (text.startsWith('/>', at)) {
        at += 2;
      } else if (text.charCodeAt(at) === 0x3e /* > */) {
        at += 1;
        open.push(element);
        parent = element;
      } else {
        malformed(at);
      }
    }
  }
  const [root] = document.children;
  if (open.length > 1 || root === undefined || document.children.length > 1 || document.text.trim() !== '') {
    malformed(text.length);
  }
  return root;
}

/** Text of the first child of that name. */
export function childText(element: XmlElement, name: string): string | undefined {
  return element.children.find((child) => child.name === name)?.text;
}

/** All children of that name. */
export function childrenNamed(element: XmlElement, name: string): XmlElement[] {
  return element.children.filter((child) => child.name === name);
}

/** Escapes text for an XML element. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"'\r\n\t]/g, (character) => `&#${character.charCodeAt(0)};`);
}

const NAMED: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescapeXml(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&([^;&]*;?)/g, (whole, name: string) => {
    const number = /^#(?:x([0-9a-f]{1,6})|(\d{1,7}));$/i.exec(name);
    if (number !== null) {
      const code = number[1] === undefined ? Number(number[2]) : parseInt(number[1], 16);
      if (code <= 0x10ffff) return String.fromCodePoint(code);
    }
    const character = name.endsWith(';') ? NAMED[name.slice(0, -1)] : undefined;
    if (character === undefined) throw new MalformedXmlError(`"${whole}" is not a character reference`);
    return character;
  });
}

function match(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? malformed(at);
}

function getEnd(text: string, end: string, from: number): number {
  const at = text.indexOf(end, from);
  return at < 0 ? malformed(from) : at + end.length;
}

function malformed(at: number): never {
  throw new MalformedXmlError(`not well-formed XML at character ${at}`);
}
