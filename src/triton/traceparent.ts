import { randomBytes } from 'node:crypto';

/** A new trace of W3C Trace Context. */
export interface TraceContext {
  /** 32 hexadecimal digits, by which a tracing system finds the trace. */
  traceId: string;
  /** The header: version, trace id, id of the caller's span, and a flag that the trace is recorded. */
  traceparent: string;
}

export function newTrace(): TraceContext {
  const traceId = randomBytes(16).toString('hex');
  return { traceId, traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-01` };
}
