/** How models are compiled for the replicas. The output has it as JSON. */
export interface BuilderOutput {
  /** Release of Triton and processors, such as `26.11 7.5 8.6` or `26.11 cpu`. */
  target: string;
  labels: Record<string, string>;
  /** A pod of Kubernetes, whose container has no command. */
  spec: { containers: readonly object[] };
}

/** The port of the container, on loopback of the pod. */
export const BUILDER_PORT = 8000;
