/** A fenced block of a Markdown page. */
export interface Fence {
  /** The first word after the opening fence, such as `sh`. */
  language: string;
  /** The text after the language. */
  note: string;
  text: string;
  /** The paragraph before it. */
  before: string;
}

/** The fenced blocks of a page, in order. */
export function fences(markdown: string): Fence[] {
  const found = markdown.matchAll(/^```(\S+)[ \t]*([^\n]*)\n([^]*?)^```$/gm);
  return [...found].map(({ 1: language = '', 2: note = '', 3: text = '', index }) => ({
    language,
    note,
    text,
    before: markdown.slice(0, index).trimEnd().split('\n\n').at(-1) ?? '',
  }));
}
