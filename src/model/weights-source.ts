/** A place that weights are read from. `text` is as the user wrote it. */
export type Source =
  | { kind: 's3'; text: string; bucket: string; key: string }
  | { kind: 'url'; text: string }
  /** Hugging Face; without `file` the whole repository. */
  | { kind: 'hub'; text: string; repository: string; revision: string; file: string | undefined }
  /** From the model folder. */
  | { kind: 'path'; text: string };

/** For messages. */
export const SOURCES =
  's3://BUCKET/KEY, https://HOST/FILE, hf://OWNER/NAME@REVISION/FILE, hf://OWNER/NAME@COMMIT, a path from the model folder';

/** @returns undefined for what is none */
export function parseSource(text: string): Source | undefined {
  const s3 = /^s3:\/\/([a-z0-9][a-z0-9.-]+[a-z0-9])\/(.*[^/])$/.exec(text);
  if (s3 !== null) return { kind: 's3', text, bucket: s3[1] ?? '', key: s3[2] ?? '' };
  const hub = /^hf:\/\/([\w.-]+\/[\w.-]+)@([\w.-]+)(?:\/([^/].*))?$/.exec(text);
  if (hub !== null) return { kind: 'hub', text, repository: hub[1] ?? '', revision: hub[2] ?? '', file: hub[3] };
  if (/^https?:\/\//.test(text)) return URL.canParse(text) ? { kind: 'url', text } : undefined;
  return text === '' || /^[a-z0-9]+:\/\//i.test(text) ? undefined : { kind: 'path', text };
}
