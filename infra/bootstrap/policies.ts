import * as pulumi from '@pulumi/pulumi';
import boundary from '../../docs/iam/boundary.json';
import deploy from '../../docs/iam/deploy.json';
import preview from '../../docs/iam/preview.json';
import { getPartition } from '../iam/policy-document';

/** What the policies in docs/iam have placeholders for. */
export interface PolicyValues {
  stack: string;
  region: string;
  accountId: pulumi.Input<string>;
  stateBucket: pulumi.Input<string>;
  stateKeyArn: pulumi.Input<string>;
}

/** The JSON text of a document of docs/iam, with its placeholders replaced, and with more statements. */
const fill = (document: { Statement: object[] }, values: PolicyValues, more: object[] = []): pulumi.Output<string> =>
  pulumi.all([values.accountId, values.stateBucket, values.stateKeyArn]).apply(([account, bucket, key]) =>
    JSON.stringify({ ...document, Statement: [...document.Statement, ...more] })
      .replaceAll('arn:aws:kms:REGION:ACCOUNT:key/STATE-KEY', key)
      .replaceAll('arn:aws:', `arn:${getPartition(values.region)}:`)
      .replaceAll('STATE-BUCKET', bucket)
      .replaceAll('REGION', values.region)
      .replaceAll('ACCOUNT', account)
      .replaceAll('STACK', values.stack),
  );

/** The bucket of the models, whose name ends in the 7 characters that Pulumi generates. */
const modelBucket = (stack: string): string => `arn:aws:s3:::triton-${stack}-models-???????`;

export const boundaryPolicy = (values: PolicyValues): pulumi.Output<string> => fill(boundary, values);

/** Reads the resources and the state of a stack. */
export const previewPolicy = (values: PolicyValues): pulumi.Output<string> => fill(preview, values);

/** @param source stack from which `promote` copies models; empty for none */
export const deployPolicy = (values: PolicyValues, source: string): pulumi.Output<string> =>
  fill(deploy, values, source === '' ? [] : readModels(source));

const readModels = (source: string): object[] => [
  { Sid: 'ListSource', Effect: 'Allow', Action: 's3:ListBucket', Resource: modelBucket(source) },
  { Sid: 'ReadSource', Effect: 'Allow', Action: 's3:GetObject', Resource: `${modelBucket(source)}/*` },
  {
    Sid: 'SourceKey',
    Effect: 'Allow',
    Action: 'kms:Decrypt',
    Resource: 'arn:aws:kms:REGION:ACCOUNT:key/*',
    Condition: { StringEquals: { 'aws:ResourceTag/stack': source } },
  },
];
