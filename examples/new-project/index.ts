import { Config } from '@pulumi/pulumi';
import { TritonServer } from 'triton-serving/components';

const config = new Config();

const triton = new TritonServer('triton', {
  modelRepository: config.require('modelRepository'),
  region: config.require('region'),
  credentials: { kind: 'role', roleArn: config.require('roleArn') },
  replicas: config.requireNumber('replicas'),
});

export const url = triton.serviceUrl;
