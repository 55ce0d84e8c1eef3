import { isIPv4 } from 'node:net';
import { UserError } from '../../src/core/errors';
import { containsRange } from '../network/cidr';
import { ok, warning, type Check, type Finding } from './check';
import type { Web } from './web';

/** A server of AWS that answers with the address from which a request arrives. */
const CHECK_IP = 'https://checkip.amazonaws.com';

/** Replaces the server, in a network that does not reach it. */
const VARIABLE = 'TRITON_CHECKIP_URL';

/** Whether the Kubernetes API of the cluster admits the address of this machine, which "pulumi up" needs. */
export const ownAddressCheck: Check = {
  name: 'own address',
  run: async ({ account, web, settings: { cluster, stack } }) => {
    if (cluster.kind === 'existing') return [ok('not checked: the stack uses an existing cluster')];
    const { publicAccessCidrs: ranges } = cluster;
    if (ranges.length === 0) {
      const isNew = cluster.network.kind === 'create' && (await account.cluster(cluster.name)) === undefined;
      return [isNew ? noAddress(stack) : ok('not checked: publicAccessCidrs is empty, so the API admits only the VPC')];
    }
    return [judgeAddress(await findOwnAddress(web), ranges, stack)];
  },
};

/** No machine is in a VPC that the first update creates. */
const noAddress = (stack: string): Finding =>
  warning(
    'publicAccessCidrs is empty, so the API admits only the VPC, which does not exist yet: the first "pulumi up" creates the cluster and then fails',
    `pulumi config set --stack ${stack} --path 'publicAccessCidrs[0]' "$(curl -s ${CHECK_IP})/32"`,
  );

/** @param ranges publicAccessCidrs */
export function judgeAddress(address: string, ranges: readonly string[], stack: string): Finding {
  const range = ranges.find((outer) => containsRange(outer, `${address}/32`));
  if (range !== undefined) return ok(`${address} is in ${range} of publicAccessCidrs`);
  return warning(
    `this machine has the address ${address}, which is not in publicAccessCidrs (${ranges.join(', ')}), so "pulumi up" reaches the Kubernetes API only from the VPC`,
    `unless this machine is in the VPC: pulumi config set --stack ${stack} --path 'publicAccessCidrs[${ranges.length}]' ${address}/32`,
  );
}

/** @throws UserError if no server reports the address */
async function findOwnAddress(web: Web): Promise<string> {
  const given = process.env[VARIABLE] ?? '';
  const url = given === '' ? CHECK_IP : given;
  const { status, text } = await web.ask(url);
  const address = text.trim();
  if (status === 200 && isIPv4(address)) return address;
  throw new UserError(`${url} answered ${status} without an IPv4 address`, {
    hint: `set ${VARIABLE} to a server that answers with the address of its client, as ${CHECK_IP} does`,
  });
}
