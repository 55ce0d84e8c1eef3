import { belongingTo, type Rule } from '../rule';
import { VPC } from './types';

const FLOW_LOG = 'aws:ec2/flowLog:FlowLog';

export const networkRules: readonly Rule[] = [
  {
    name: 'network-flow-logs',
    description: 'A network logs who talked to whom.',
    stack: (resources, report) => {
      for (const vpc of resources.filter(({ type }) => type === VPC)) {
        const logs = belongingTo(vpc, FLOW_LOG, 'vpcId', resources, [vpc.props.at('id')]);
        if (logs.length > 0) continue;
        report({ resource: vpc, at: vpc.props, problem: 'the network has no FlowLog', fix: 'add one with vpcId' });
      }
    },
  },
  {
    name: 'network-logs-expire',
    description: 'A log group says how long it keeps what it has: it costs, and may hold addresses of people.',
    each: {
      types: ['aws:cloudwatch/logGroup:LogGroup'],
      check: (resource, report) => {
        const at = resource.props.at('retentionInDays');
        if (at.isMissing() || at.is(0)) report({ resource, at, fix: 'set the days that it is kept' });
      },
    },
  },
  {
    name: 'load-balancer-internal',
    description: 'No load balancer of a stack faces the internet.',
    each: {
      types: ['aws:lb/loadBalancer:LoadBalancer', 'aws:alb/loadBalancer:LoadBalancer'],
      check: (resource, report) => {
        const at = resource.props.at('internal');
        if (!at.mayBe(true)) report({ resource, at, fix: 'set it to true' });
      },
    },
  },
];
