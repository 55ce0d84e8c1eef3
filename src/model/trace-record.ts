import { readFileSync } from 'node:fs';
import { staysInside } from './paths';

/** A file that the trace wrote. */
export interface RecordedFile {
  /** Relative to the model folder: `1/model.pt`. */
  path: string;
  bytes: number;
  /** In hex. */
  sha256?: string;
}

/** The files that the record of a trace names (`Record` in python/tracing/record.py). */
export interface TraceRecord {
  artifact: RecordedFile | undefined;
  /** Files that an ONNX export wrote beside the artifact. */
  dataFiles: RecordedFile[];
  /** Golden requests, and other files that the trace wrote. */
  otherFiles: RecordedFile[];
  /** Whether the file was compared with PyTorch only for the golden requests. Such a file is served on this machine only. */
  isQuick: boolean;
  /** `max_batch_size` of model.yaml, and the dims of each input (those of `reshape`), when the file was checked. */
  maxBatchSize: number;
  inputDims: number[][];
  /** Path -> SHA-256 in hex. Paths are relative to the model folder, except those of `python/tracing/`. */
  sources: Record<string, string>;
}

/** Reads a trace record; undefined if the file is not one. A user may have damaged the file, so wrong entries are left out. */
export function readTraceRecord(file: string): TraceRecord | undefined {
  try {
    const record = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
    const {
      artifact,
      data_files: data,
      extra_files: extra,
      golden,
      sources,
      checked,
      max_batch_size: batch,
      input_dims: dims,
    } = record;
    const [found] = [artifact].filter(isRecordedFile);
    return {
      artifact: found,
      dataFiles: [data].flat().filter(isRecordedFile),
      otherFiles: [extra, golden].flat().filter(isRecordedFile),
      isQuick: checked === 'quick',
      maxBatchSize: Number(batch),
      inputDims: [dims].flat().map((one) => [one].flat().map(Number)),
      sources: Object.fromEntries(
        Object.entries(sources ?? {}).filter(([path, hash]) => !path.includes('\0') && typeof hash === 'string'),
      ),
    };
  } catch {
    return undefined;
  }
}

function isRecordedFile(entry: unknown): entry is RecordedFile {
  const { path, bytes, sha256 } = (entry ?? {}) as Partial<Record<keyof RecordedFile, unknown>>;
  if (typeof path !== 'string' || typeof bytes !== 'number') return false;
  return (sha256 === undefined || typeof sha256 === 'string') && staysInside(path) && !path.includes('\0');
}
