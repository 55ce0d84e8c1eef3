/** What holds where nothing is said; args.ts tells the same in words. */
export const DEFAULTS = {
  replicas: 2,
  gpusPerPod: 1,
  monitoringNamespace: 'monitoring',
  /** Without cpuLimit, which is twice cpu. */
  resources: { cpu: 2, memoryGiB: 8, sharedMemoryGiB: 1, scratchGiB: 20 },
  startup: { downloadSeconds: 300, loadSeconds: 180, warmUpSeconds: 120 },
  shutdown: { drainSeconds: 15, exitTimeoutSeconds: 30 },
  rollout: { strategy: 'in-place', maxUnavailable: 1 },
  /** Also the queue time that alerts are made of where nothing scales on one. */
  queueMilliseconds: 50,
  scaleDownAfterSeconds: 600,
  /** Also where nothing is monitored: then it is for whoever scrapes. */
  scrapeSeconds: 15,
  ingress: { className: 'alb', scheme: 'internal' },
  /** That of EKS Auto Mode. */
  loadBalancerClass: 'eks.amazonaws.com/nlb',
} as const;

/** Where pods may connect to; what network-policy.ts takes out of it are the addresses of the machine itself. */
export const ANYWHERE = '0.0.0.0/0';
