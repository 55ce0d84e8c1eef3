import { resource, withUnknown, type Cases } from './case';

const vpc = resource('aws:ec2/vpc:Vpc', 'serving', { id: 'vpc-1' });

export const networkCases: Cases = {
  'network-flow-logs': {
    passes: {
      'by id': [vpc, resource('aws:ec2/flowLog:FlowLog', 'log', { vpcId: 'vpc-1' })],
      'by the wiring': [
        vpc,
        resource('aws:ec2/flowLog:FlowLog', 'log', withUnknown({}, 'vpcId'), { wiring: { vpcId: vpc } }),
      ],
    },
    fails: {
      'of another network': {
        stack: [vpc, resource('aws:ec2/flowLog:FlowLog', 'log', { vpcId: 'vpc-2' })],
        says: 'aws:ec2/vpc:Vpc "serving": the VPC has no FlowLog; add one with vpcId.',
      },
    },
  },
  'network-logs-expire': {
    passes: { 'after a month': [resource('aws:cloudwatch/logGroup:LogGroup', 'flow', { retentionInDays: 30 })] },
    fails: {
      never: {
        stack: [resource('aws:cloudwatch/logGroup:LogGroup', 'flow', { retentionInDays: 0 })],
        says: 'aws:cloudwatch/logGroup:LogGroup "flow": retentionInDays is 0; set the number of days.',
      },
    },
  },
  'load-balancer-internal': {
    passes: { internal: [resource('aws:lb/loadBalancer:LoadBalancer', 'triton', { internal: true })] },
    fails: {
      'for the internet': {
        stack: [resource('aws:lb/loadBalancer:LoadBalancer', 'triton', {})],
        says: 'aws:lb/loadBalancer:LoadBalancer "triton": internal is not set; set it to true.',
      },
    },
  },
};
