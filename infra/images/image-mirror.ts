import { LifecyclePolicy } from '@pulumi/aws/ecr/lifecyclePolicy';
import { Repository } from '@pulumi/aws/ecr/repository';
import * as pulumi from '@pulumi/pulumi';

export interface ImageMirrorArgs {
  /** Names of the ECR repositories: `triton-prod/tritonserver`. */
  repositories: readonly string[];
  /** Pulumi refuses to delete the repositories. Default: false, and a deletion deletes their images. */
  protect?: boolean;
}

/** Days after which images without a tag expire. They are left when a copy ended before it set the tag. */
const UNTAGGED_DAYS = 14;

/** ECR repositories for copies of the images of the replicas. */
export class ImageMirror extends pulumi.ComponentResource {
  constructor(name: string, args: ImageMirrorArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:ImageMirror', name, {}, options);
    for (const repositoryName of args.repositories) {
      const label = `${name}-${repositoryName.split('/').at(-1)}`;
      const repository = new Repository(
        label,
        {
          name: repositoryName,
          imageTagMutability: 'IMMUTABLE',
          imageScanningConfiguration: { scanOnPush: true },
          // With the key that AWS manages for ECR, which nodes need no right to use.
          encryptionConfigurations: [{ encryptionType: 'KMS' }],
          // The source still has the images.
          forceDelete: args.protect !== true,
        },
        { parent: this, protect: args.protect },
      );
      new LifecyclePolicy(
        label,
        {
          repository: repository.name,
          // Every image in use has a tag. ECR expires no image of an index that has one.
          policy: JSON.stringify({
            rules: [
              {
                rulePriority: 1,
                description: 'Parts of interrupted copies',
                selection: {
                  tagStatus: 'untagged',
                  countType: 'sinceImagePushed',
                  countUnit: 'days',
                  countNumber: UNTAGGED_DAYS,
                },
                action: { type: 'expire' },
              },
            ],
          }),
        },
        { parent: repository, deletedWith: repository },
      );
    }
    this.registerOutputs({});
  }
}
