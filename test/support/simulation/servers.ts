import { clock, type Program } from './clock';

/** Answers one request of the control API. */
export type Handler = (request: {
  method: string;
  url: string;
  body: string;
}) => Promise<{ status: number; body: string }>;

const handlers = new WeakMap<Program, Handler>();

/** HTTP servers, by the program that listens. */
export const servers = {
  add: (handler: Handler): void => void handlers.set(clock().current, handler),
  of: (program: Program): Handler | undefined => handlers.get(program),
};
