import type { Rule } from '../rule';
import { KEY, LAUNCH_TEMPLATE } from './types';

const INSTANCE = 'aws:ec2/instance:Instance';
const VOLUMES = ['aws:ebs/volume:Volume', 'aws:efs/fileSystem:FileSystem'];

export const machineRules: readonly Rule[] = [
  {
    name: 'machine-imdsv2',
    description:
      'The instance metadata service, which provides the credentials of the role of the instance, requires IMDSv2 and is unreachable from pods.',
    each: {
      types: [LAUNCH_TEMPLATE, INSTANCE],
      check: (resource, report) => {
        const tokens = resource.props.at('metadataOptions.httpTokens');
        const endpoint = resource.props.at('metadataOptions.httpEndpoint');
        if (endpoint.mayBe('disabled')) return;
        if (!tokens.mayBe('required')) report({ resource, at: tokens, fix: 'set it to required' });
        const hops = resource.props.at('metadataOptions.httpPutResponseHopLimit');
        if (!hops.isUnknown() && Number(hops.raw ?? 1) > 1) {
          report({ resource, at: hops, fix: 'set it to 1, which excludes pods; pods have roles of their own' });
        }
      },
    },
  },
  {
    name: 'machine-volumes-encrypted',
    description: 'Every volume of an instance or launch template is encrypted.',
    each: {
      types: [LAUNCH_TEMPLATE, INSTANCE],
      check: (resource, report) => {
        const devices = [
          ...resource.props
            .at('blockDeviceMappings')
            .items()
            .map((mapping) => mapping.at('ebs')),
          ...resource.props.at('rootBlockDevice').items(),
          ...resource.props.at('ebsBlockDevices').items(),
        ].filter((device) => !device.isMissing());
        for (const device of devices) {
          const at = device.at('encrypted');
          if (!at.mayBe(true, 'true')) report({ resource, at, fix: 'set it to true' });
        }
        if (resource.type === LAUNCH_TEMPLATE && devices.length === 0) {
          const at = resource.props.at('blockDeviceMappings');
          if (!at.isUnknown()) report({ resource, at, fix: 'add the root volume, with ebs.encrypted: true' });
        }
      },
    },
  },
  {
    name: 'volume-encrypted',
    description: 'Every volume and file system is encrypted.',
    each: {
      types: VOLUMES,
      check: (resource, report) => {
        const at = resource.props.at('encrypted');
        if (!at.mayBe(true)) report({ resource, at, fix: 'set it to true' });
      },
    },
  },
  {
    name: 'storage-class-encrypted',
    description: 'Every storage class of EBS encrypts the volumes that pods claim.',
    each: {
      types: ['kubernetes:storage.k8s.io/v1:StorageClass'],
      check: (resource, report) => {
        if (!(resource.props.at('provisioner').text() ?? '').startsWith('ebs.csi.')) return;
        const at = resource.props.at('parameters.encrypted');
        if (!at.mayBe('true')) report({ resource, at, fix: 'set it to "true"' });
      },
    },
  },
  {
    name: 'machine-private',
    description: 'No instance has a public IP address.',
    each: {
      types: [LAUNCH_TEMPLATE, INSTANCE],
      check: (resource, report) => {
        const places = [resource.props, ...resource.props.at('networkInterfaces').items()];
        for (const at of places.map((place) => place.at('associatePublicIpAddress'))) {
          if (at.is(true, 'true')) report({ resource, at, fix: 'remove it and use private subnets' });
        }
      },
    },
  },
  {
    name: 'key-rotated',
    description: 'Every symmetric KMS key is rotated automatically.',
    each: {
      types: [KEY],
      check: (resource, report) => {
        const rotation = resource.props.at('enableKeyRotation');
        // Only symmetric keys can be rotated.
        if (resource.props.at('customerMasterKeySpec').is(undefined, 'SYMMETRIC_DEFAULT') && !rotation.mayBe(true)) {
          report({ resource, at: rotation, fix: 'set it to true' });
        }
      },
    },
  },
];
