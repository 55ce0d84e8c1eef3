import { Config } from '@pulumi/pulumi';
import { TritonServer } from 'triton-serving/components';

const config = new Config();

// `triton-serving sync-models` reads these two outputs and the key.
export const modelRepository = config.require('modelRepository');
export const region = config.require('region');

const triton = new TritonServer('triton', {
  modelRepository,
  region,
  credentials: { roleArn: config.require('roleArn') },
  replicas: config.requireNumber('replicas'),
});

export const { serviceUrl } = triton;
