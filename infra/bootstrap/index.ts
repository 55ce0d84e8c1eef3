import * as pulumi from '@pulumi/pulumi';
import { bootstrap } from './bootstrap';

const config = new pulumi.Config();

// Pulumi uses the result as the outputs of the stack.
export = bootstrap({
  stack: pulumi.getStack(),
  region: new pulumi.Config('aws').require('region'),
  repository: config.require('repository'),
  createOidcProvider: config.requireBoolean('createOidcProvider'),
  previews: config.requireBoolean('previews'),
  promotesFrom: config.get('promotesFrom') ?? '',
});
