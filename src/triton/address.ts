import { UserError } from '../core/errors';

/**
 * The URL of a server that is given as `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`, the form of other clients
 * of Triton; without a slash at its end.
 * @throws UserError where it is no such address
 */
export function serverUrl(address: string): string {
  const url = (address.includes('://') ? address : `http://${address}`).replace(/\/+$/, '');
  if (/^https?:\/\/[^/]/i.test(url) && URL.canParse(url)) return url;
  throw new UserError(`${JSON.stringify(address)} is not the address of a server`, {
    hint: 'write http://HOST:PORT, https://HOST:PORT or HOST:PORT',
  });
}
