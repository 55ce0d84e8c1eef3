/** For the log: a line of JSON each. */
export interface AgentEvent {
  event: string;
  [field: string]: unknown;
}

export type Report = (event: AgentEvent) => void;
