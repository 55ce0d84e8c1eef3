import { TritonServer } from '@pulumi/triton-serving';

const faces = new TritonServer('faces', {
  modelRepository: 's3://models-bucket/faces',
  region: 'eu-west-1',
  credentials: { roleArn: 'arn:aws:iam::111122223333:role/faces' },
  replicas: 2,
  resources: { cpu: 4, memoryGiB: 16 },
  clientNamespaces: ['web'],
});

export const url = faces.serviceUrl;
