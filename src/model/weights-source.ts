/** A source of weights. `text` is the source as the user wrote it. */
export type WeightsSource =
  | { kind: 's3'; text: string; bucket: string; key: string }
  | { kind: 'url'; text: string }
  /** Hugging Face; the whole repository if `file` is undefined. */
  | { kind: 'hub'; text: string; repository: string; revision: string; file: string | undefined }
  /** A path relative to the model folder. */
  | { kind: 'path'; text: string };

/** Formats of sources, for messages. */
export const SOURCES =
  's3://BUCKET/KEY, https://HOST/FILE, hf://OWNER/NAME@REVISION/FILE, hf://OWNER/NAME@COMMIT, a path from the model folder';

/** @returns undefined if the text is not a source */
export function parseSource(text: string): WeightsSource | undefined {
  const s3 = /^s3:\/\/([a-z0-9][a-z0-9.-]+[a-z0-9])\/(.*[^/])$/.exec(text);
  if (s3 !== null) return { kind: 's3', text, bucket: s3[1] ?? '', key: s3[2] ?? '' };
  const hub = /^hf:\/\/([\w.-]+\/[\w.-]+)@([\w.-]+)(?:\/([^/].*))?$/.exec(text);
  if (hub !== null) return { kind: 'hub', text, repository: hub[1] ?? '', revision: hub[2] ?? '', file: hub[3] };
  if (/^https?:\/\//.test(text)) return URL.canParse(text) ? { kind: 'url', text } : undefined;
  return text === '' || /^[a-z0-9]+:\/\//i.test(text) ? undefined : { kind: 'path', text };
}
