import { changed, resource, withUnknown, type Cases } from './case';

const TEMPLATE = 'aws:ec2/launchTemplate:LaunchTemplate';
const GOOD = {
  metadataOptions: { httpTokens: 'required', httpPutResponseHopLimit: 1 },
  blockDeviceMappings: [{ deviceName: '/dev/xvda', ebs: { encrypted: 'true', volumeSize: 100 } }],
  networkInterfaces: [{ associatePublicIpAddress: 'false' }],
};
const template = (path?: string, to?: unknown) =>
  resource(TEMPLATE, 'gpu', path === undefined ? GOOD : changed(GOOD, path, to));

export const machineCases: Cases = {
  'machine-imdsv2': {
    passes: {
      required: [template()],
      'no metadata at all': [template('metadataOptions', { httpEndpoint: 'disabled' })],
      'not known yet': [resource(TEMPLATE, 'gpu', withUnknown({}, 'metadataOptions'))],
    },
    fails: {
      optional: {
        stack: [template('metadataOptions.httpTokens', 'optional')],
        says: `${TEMPLATE} "gpu": metadataOptions.httpTokens is "optional"; set it to required.`,
      },
      'not set': {
        stack: [template('metadataOptions', undefined)],
        says: `${TEMPLATE} "gpu": metadataOptions.httpTokens is not set; set it to required.`,
      },
      'within reach of pods': {
        stack: [template('metadataOptions.httpPutResponseHopLimit', 2)],
        says: `${TEMPLATE} "gpu": metadataOptions.httpPutResponseHopLimit is 2; set it to 1, which excludes pods; pods have roles of their own.`,
      },
    },
  },
  'machine-volumes-encrypted': {
    passes: { encrypted: [template()] },
    fails: {
      'not set': {
        stack: [template('blockDeviceMappings', [{ ebs: { encrypted: 'true' } }, { ebs: { volumeSize: 9 } }])],
        says: `${TEMPLATE} "gpu": blockDeviceMappings[1].ebs.encrypted is not set; set it to true.`,
      },
      'the volume of the image': {
        stack: [template('blockDeviceMappings', undefined)],
        says: `${TEMPLATE} "gpu": blockDeviceMappings is not set; add the root volume, with ebs.encrypted: true.`,
      },
    },
  },
  'volume-encrypted': {
    passes: { encrypted: [resource('aws:ebs/volume:Volume', 'cache', { encrypted: true })] },
    fails: {
      'not set': {
        stack: [resource('aws:efs/fileSystem:FileSystem', 'cache', {})],
        says: 'aws:efs/fileSystem:FileSystem "cache": encrypted is not set; set it to true.',
      },
    },
  },
  'storage-class-encrypted': {
    passes: {
      encrypted: [
        resource('kubernetes:storage.k8s.io/v1:StorageClass', 'gp3', {
          provisioner: 'ebs.csi.eks.amazonaws.com',
          parameters: { encrypted: 'true' },
        }),
      ],
      'of another kind': [
        resource('kubernetes:storage.k8s.io/v1:StorageClass', 'local', { provisioner: 'kubernetes.io/no-provisioner' }),
      ],
    },
    fails: {
      'not set': {
        stack: [
          resource('kubernetes:storage.k8s.io/v1:StorageClass', 'gp3', { provisioner: 'ebs.csi.eks.amazonaws.com' }),
        ],
        says: 'kubernetes:storage.k8s.io/v1:StorageClass "gp3": parameters.encrypted is not set; set it to "true".',
      },
    },
  },
  'machine-private': {
    passes: { private: [template()] },
    fails: {
      public: {
        stack: [template('networkInterfaces', [{ associatePublicIpAddress: 'true' }])],
        says: `${TEMPLATE} "gpu": networkInterfaces[0].associatePublicIpAddress is "true"; remove it and use private subnets.`,
      },
    },
  },
  'key-rotated': {
    passes: {
      rotated: [resource('aws:kms/key:Key', 'models', { enableKeyRotation: true })],
      'a key that signs': [resource('aws:kms/key:Key', 'signs', { customerMasterKeySpec: 'RSA_2048' })],
    },
    fails: {
      'not set': {
        stack: [resource('aws:kms/key:Key', 'models', {})],
        says: 'aws:kms/key:Key "models": enableKeyRotation is not set; set it to true.',
      },
    },
  },
};
