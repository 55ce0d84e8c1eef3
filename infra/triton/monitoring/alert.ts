/** One alert; docs/runbook.md has a section with its name. */
export interface Alert {
  name: string;
  /** `critical`: requests fail or are about to fail, so page an operator. `warning`: investigate within the day. */
  severity: 'critical' | 'warning';
  /** How long the expression must hold. */
  forSeconds: number;
  /** PromQL. Each series of the result is a case. */
  expression: string;
  /** One line, which may contain labels of the case. */
  summary: string;
}
