import * as pulumi from '@pulumi/pulumi';
import { bootstrap, findGithubProvider } from './bootstrap';

const config = new pulumi.Config();

// Pulumi calls this function and uses its result as the outputs of the stack.
export = async () =>
  bootstrap({
    stack: pulumi.getStack(),
    region: new pulumi.Config('aws').require('region'),
    repository: config.require('repository'),
    providerArn: config.requireBoolean('createOidcProvider') ? undefined : await findGithubProvider(),
    previews: config.requireBoolean('previews'),
    promotesFrom: config.get('promotesFrom') ?? '',
  });
