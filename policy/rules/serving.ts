import type { Rule } from '../pack';
import { getPod, getTritons, getWords, POD_TYPES } from './pods';

const ALB = 'alb.ingress.kubernetes.io';
const SCHEME = 'service.beta.kubernetes.io/aws-load-balancer-scheme';
const CONTROL_PATH = '/v2/repository/';

export const servingRules: readonly Rule[] = [
  {
    name: 'triton-drains',
    description:
      'Every Triton has a preStop hook, because it refuses new connections as soon as it ends, and a termination grace period that covers the hook and --exit-timeout-secs, so that open requests complete.',
    applies: POD_TYPES,
    check: (resource, report) => {
      const grace = getPod(resource).at('terminationGracePeriodSeconds');
      for (const container of getTritons(resource)) {
        const hook = container.at('lifecycle.preStop');
        if (hook.isMissing()) report(hook, 'add { sleep: { seconds: 15 } }');
        const flags = getWords(container).map((word) => /^--exit-timeout-secs=(\d+)$/.exec(word.text() ?? '')?.[1]);
        const exit = Number(flags.find((seconds) => seconds !== undefined) ?? 30);
        const least = exit + hook.at('sleep.seconds').number(0, 0);
        if (grace.number(30, Infinity) < least)
          report(grace, `set it to at least ${least}, the preStop hook and the exit timeout`);
      }
    },
  },
  {
    name: 'triton-control-guarded',
    description:
      'Every Triton that loads models on request requires a key for such requests over HTTP and gRPC, because a model can contain code.',
    applies: POD_TYPES,
    check: (resource, report) => {
      for (const container of getTritons(resource)) {
        const words = getWords(container);
        if (!words.some((word) => word.is('--model-control-mode=explicit'))) continue;
        for (const flag of ['http-restricted-api', 'grpc-restricted-protocol']) {
          const guard = new RegExp(`^--${flag}=([\\w-]+,)*model-repository[,:]`);
          if (words.some((word) => word.isUnknown() || guard.test(word.text() ?? ''))) continue;
          const fix = `add --${flag}=model-repository,...:HEADER=KEY`;
          report(container.at('args'), fix, 'every client can use its model control API');
        }
      }
    },
  },
  {
    name: 'control-api-not-routed',
    description:
      'No Ingress routes the model control API, /v2/repository. Allow inference and health only: /v2/models and /v2/health.',
    applies: ['kubernetes:networking.k8s.io/v1:Ingress'],
    check: ({ props }, report) => {
      const paths = props
        .at('spec.rules')
        .items()
        .flatMap((rule) => rule.at('http.paths').items());
      for (const path of paths) {
        const at = path.at('path');
        const prefix = `${at.text() ?? (at.isMissing() ? '' : 'unknown')}/`.replace(/\/+$/, '/');
        const isWider = !path.at('pathType').mayBe('Exact') && CONTROL_PATH.startsWith(prefix);
        if (isWider || prefix.startsWith(CONTROL_PATH)) report(at, 'use /v2/models and /v2/health');
      }
      const rest = props.at('spec.defaultBackend');
      if (!rest.isMissing() && !rest.isUnknown()) report(rest, 'remove it, because it receives every path');
    },
  },
  {
    name: 'ingress-guarded',
    description:
      'Every Ingress uses TLS, and one with an address on the internet authenticates its clients, because Triton does neither.',
    applies: ['kubernetes:networking.k8s.io/v1:Ingress'],
    check: ({ props }, report) => {
      const annotations = props.at('metadata.annotations');
      const tls = props.at('spec.tls');
      const certificate = annotations.key(`${ALB}/certificate-arn`);
      if (!tls.isUnknown() && tls.items().length === 0 && certificate.isMissing()) {
        report(tls, 'add the hosts and the Secret with their certificate');
      }
      const scheme = annotations.key(`${ALB}/scheme`);
      const guards = ['mutual-authentication', 'jwt-validation', 'auth-type'].map((name) =>
        annotations.key(`${ALB}/${name}`),
      );
      if (scheme.is('internet-facing') && guards.every((guard) => guard.is(undefined, null, 'none'))) {
        report(scheme, `set it to internal, or add ${ALB}/mutual-authentication`);
      }
    },
  },
  {
    name: 'service-internal',
    description: 'No Service has a public address or a node port, because Triton does not authenticate its clients.',
    applies: ['kubernetes:core/v1:Service'],
    check: ({ props }, report) => {
      const type = props.at('spec.type');
      if (type.is('NodePort')) report(type, 'set it to ClusterIP');
      const scheme = props.at('metadata.annotations').key(SCHEME);
      if (type.is('LoadBalancer') && !scheme.mayBe('internal')) report(scheme, 'set it to internal');
    },
  },
  {
    name: 'gpu-pool-limited',
    description: 'Every NodePool limits its size, because Karpenter starts a GPU machine for every pending pod.',
    applies: ['kubernetes:karpenter.sh/v1:NodePool'],
    check: ({ props }, report) => {
      const at = props.at('spec.limits');
      if (!at.isUnknown() && at.values().length === 0) report(at, 'set nvidia.com/gpu, or cpu and memory');
    },
  },
];
