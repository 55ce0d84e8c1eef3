/** Escaped HTML. */
export class Html {
  constructor(readonly text: string) {}
}

/** A value in a template. Lists are joined; undefined renders as nothing. */
export type HtmlValue = Html | string | number | undefined | readonly HtmlValue[];

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** A template of HTML. All values are escaped, except `Html`. */
export function html(strings: TemplateStringsArray, ...parts: readonly HtmlValue[]): Html {
  return new Html(strings.map((text, i) => text + render(parts[i])).join(''));
}

function render(part: HtmlValue): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(render).join('');
  return String(part).replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
