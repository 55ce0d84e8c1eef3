import { belongingTo, type Rule } from '../rule';
import { VPC } from './types';

const FLOW_LOG = 'aws:ec2/flowLog:FlowLog';

export const networkRules: readonly Rule[] = [
  {
    name: 'network-flow-logs',
    description: 'Every VPC has flow logs, which record its connections.',
    stack: (resources, report) => {
      for (const vpc of resources.filter(({ type }) => type === VPC)) {
        const logs = belongingTo(vpc, FLOW_LOG, 'vpcId', resources, [vpc.props.at('id')]);
        if (logs.length > 0) continue;
        report({ resource: vpc, at: vpc.props, problem: 'the VPC has no FlowLog', fix: 'add one with vpcId' });
      }
    },
  },
  {
    name: 'network-logs-expire',
    description:
      'Every log group has a retention period, because logs cost money and may contain IP addresses of people.',
    each: {
      types: ['aws:cloudwatch/logGroup:LogGroup'],
      check: (resource, report) => {
        const at = resource.props.at('retentionInDays');
        if (at.isMissing() || at.is(0)) report({ resource, at, fix: 'set the number of days' });
      },
    },
  },
  {
    name: 'load-balancer-internal',
    description:
      'No load balancer of the program has a public address. For load balancers of an Ingress or Service, see ingress-authenticated and service-not-public.',
    each: {
      types: ['aws:lb/loadBalancer:LoadBalancer', 'aws:alb/loadBalancer:LoadBalancer'],
      check: (resource, report) => {
        const at = resource.props.at('internal');
        if (!at.mayBe(true)) report({ resource, at, fix: 'set it to true' });
      },
    },
  },
];
