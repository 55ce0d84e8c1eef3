import { UserError } from '../core/errors';

/**
 * The URL of a server, without a trailing slash. `address` is `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`,
 * which other Triton clients use.
 * @throws UserError if `address` has another form
 */
export function serverUrl(address: string): string {
  const url = (address.includes('://') ? address : `http://${address}`).replace(/\/+$/, '');
  if (/^https?:\/\/[^/]/i.test(url) && URL.canParse(url)) return url;
  throw new UserError(`${JSON.stringify(address)} is not the address of a server`, {
    hint: 'write http://HOST:PORT, https://HOST:PORT or HOST:PORT',
  });
}
