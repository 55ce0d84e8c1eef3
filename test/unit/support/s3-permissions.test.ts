import { permissionsFor, type S3Request } from '../../support/s3-permissions';

const KEY = 'arn:aws:kms:eu-central-1:1:key/1';
const B = 'arn:aws:s3:::models';
const O = `${B}/a b/m.pt`;
const CREATES = 's3:ObjectCreationOperation';

test.each<[string, S3Request, string[]]>([
  ['HeadBucket', { method: 'HEAD', path: '/models' }, [`s3:ListBucket ${B}`]],
  ['ListObjectsV2', { method: 'GET', path: '/models?list-type=2&prefix=a%2F' }, [`s3:ListBucket ${B} s3:prefix=a/`]],
  [
    'ListMultipartUploads',
    { method: 'GET', path: '/models?uploads=&prefix=a' },
    [`s3:ListBucketMultipartUploads ${B}`],
  ],
  ['HeadObject', { method: 'HEAD', path: '/models/a%20b/m.pt' }, [`s3:GetObject ${O}`]],
  [
    'HeadObject with its checksum',
    { method: 'HEAD', path: '/models/a%20b/m.pt', headers: { 'x-amz-checksum-mode': 'ENABLED' } },
    [`s3:GetObject ${O}`, `kms:Decrypt ${KEY}`],
  ],
  [
    'GetObject of what is missing',
    { method: 'GET', path: '/models/a%20b/m.pt', status: 404 },
    [`s3:GetObject ${O}`, `s3:ListBucket ${B}`, `kms:Decrypt ${KEY}`],
  ],
  [
    'GetObject of a version',
    { method: 'GET', path: '/models/a%20b/m.pt?versionId=1' },
    [`s3:GetObjectVersion ${O}`, `kms:Decrypt ${KEY}`],
  ],
  ['ListParts', { method: 'GET', path: '/models/a%20b/m.pt?uploadId=1' }, [`s3:ListMultipartUploadParts ${O}`]],
  [
    'PutObject',
    { method: 'PUT', path: '/models/a%20b/m.pt' },
    [`s3:PutObject ${O} ${CREATES}=true`, `kms:GenerateDataKey ${KEY}`],
  ],
  ...['if-match', 'if-none-match'].map(
    (name) =>
      [
        `PutObject with ${name}`,
        { method: 'PUT', path: '/models/a%20b/m.pt', headers: { [name]: '*' } },
        [`s3:PutObject ${O} ${CREATES}=true s3:${name}=*`, `kms:GenerateDataKey ${KEY}`],
      ] as [string, S3Request, string[]],
  ),
  [
    'CreateMultipartUpload',
    { method: 'POST', path: '/models/a%20b/m.pt?uploads=' },
    [`s3:PutObject ${O} ${CREATES}=false`, `kms:GenerateDataKey ${KEY}`, `kms:Decrypt ${KEY}`],
  ],
  [
    'CompleteMultipartUpload',
    { method: 'POST', path: '/models/a%20b/m.pt?uploadId=1', headers: { 'if-none-match': '*' } },
    [`s3:PutObject ${O} ${CREATES}=true s3:if-none-match=*`, `kms:GenerateDataKey ${KEY}`, `kms:Decrypt ${KEY}`],
  ],
  [
    'UploadPart',
    { method: 'PUT', path: '/models/a%20b/m.pt?partNumber=1&uploadId=1' },
    [`s3:PutObject ${O} ${CREATES}=false`, `kms:GenerateDataKey ${KEY}`, `kms:Decrypt ${KEY}`],
  ],
  [
    'CopyObject of a version',
    { method: 'PUT', path: '/models/a%20b/m.pt', headers: { 'x-amz-copy-source': 'models/c%20d?versionId=2' } },
    [
      `s3:PutObject ${O} ${CREATES}=true`,
      `kms:GenerateDataKey ${KEY}`,
      `s3:GetObjectVersion ${B}/c d`,
      `kms:Decrypt ${KEY}`,
    ],
  ],
  [
    'AbortMultipartUpload',
    { method: 'DELETE', path: '/models/a%20b/m.pt?uploadId=1' },
    [`s3:AbortMultipartUpload ${O}`],
  ],
  [
    'DeleteObject of a version',
    { method: 'DELETE', path: '/models/a%20b/m.pt?versionId=1' },
    [`s3:DeleteObjectVersion ${O}`],
  ],
  [
    'DeleteObjects',
    {
      method: 'POST',
      path: '/models?delete=',
      body: '<Delete><Object><Key>x</Key></Object><Object><Key>y</Key><VersionId>1</VersionId></Object></Delete>',
    },
    [`s3:DeleteObject ${B}/x`, `s3:DeleteObjectVersion ${B}/y`],
  ],
])('%s', (_, request, expected) => {
  const calls = permissionsFor(request, KEY).map(({ action, resource, context = {} }) =>
    [action, resource, ...Object.entries(context).map(([key, value]) => `${key}=${value}`)].join(' '),
  );
  expect(calls).toEqual(expected);
});

test.each([
  ['PUT', '/models?versioning='],
  ['POST', '/models/x'],
  ['GET', '/models?policy='],
])('an unknown request is an error: %s %s', (method, path) => {
  expect(() => permissionsFor({ method, path })).toThrow('is not known here');
});
