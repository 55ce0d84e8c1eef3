import { error, ok, type Check } from './check';

/** The account that the credentials belong to, against `aws:allowedAccountIds` of the stack file. */
export const identityCheck: Check = {
  name: 'credentials',
  required: true,
  run: async ({ account, allowedAccounts }) => {
    const { account: id, arn } = await account.identity();
    if (allowedAccounts.length > 0 && !allowedAccounts.includes(id)) {
      return [
        error(
          `account ${id} as ${arn}, but aws:allowedAccountIds has ${allowedAccounts.join(', ')}`,
          'set AWS_PROFILE (or aws:profile) to a profile of that account, or correct aws:allowedAccountIds',
        ),
      ];
    }
    return [ok(`account ${id} as ${arn}`)];
  },
};
