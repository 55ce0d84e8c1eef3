/** Text that is HTML already. */
export class Html {
  constructor(readonly text: string) {}
}

/** What may stand in a template; lists are joined, and nothing stands for nothing. */
export type Part = Html | string | number | undefined | readonly Part[];

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** A template of HTML: everything put into it is escaped, unless it comes out of such a template itself. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.map((text, i) => text + render(parts[i])).join(''));
}

function render(part: Part): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(render).join('');
  return String(part).replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
