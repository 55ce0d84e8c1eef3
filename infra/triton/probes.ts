import type { input } from '@pulumi/kubernetes/types';
import type { TritonSettings } from './settings';
import { STARTUP_PERIOD_SECONDS, startupSeconds } from './timing';

type Probes = Pick<input.core.v1.Container, 'startupProbe' | 'readinessProbe' | 'livenessProbe'>;

const READY = { path: '/v2/health/ready', port: 'http' };
const LIVE = { path: '/v2/health/live', port: 'http' };

/** When the server is started, when it gets requests, and when it is given up. */
export function probes(settings: Pick<TritonSettings, 'startup'>): Probes {
  return {
    // The HTTP port opens when the models of the start are loaded, so until then nothing else is asked.
    startupProbe: {
      httpGet: READY,
      periodSeconds: STARTUP_PERIOD_SECONDS,
      timeoutSeconds: 5,
      failureThreshold: Math.ceil(startupSeconds(settings) / STARTUP_PERIOD_SECONDS),
    },
    readinessProbe: { httpGet: READY, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
    // Slower than readiness: a server that is only busy is to be left alone, not restarted with all of its models.
    livenessProbe: { httpGet: LIVE, periodSeconds: 15, timeoutSeconds: 10, failureThreshold: 6 },
  };
}
