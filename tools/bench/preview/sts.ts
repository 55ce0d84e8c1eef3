import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const IDENTITY = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::111122223333:user/bench</Arn><UserId>AIDA</UserId><Account>111122223333</Account>
</GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`;

/** A fake AWS for the only request of a first preview, GetCallerIdentity. */
export interface Sts {
  /** Environment in which the AWS provider sends all requests to this server. */
  env: NodeJS.ProcessEnv;
  close(): void;
}

/** Starts the server on loopback. It rejects all other requests, which makes the preview fail. */
export async function startSts(): Promise<Sts> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const known = body.includes('Action=GetCallerIdentity');
      response.writeHead(known ? 200 : 403, { 'content-type': 'text/xml' }).end(known ? IDENTITY : '');
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const env = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_ACCESS_KEY_ID: 'bench',
    AWS_SECRET_ACCESS_KEY: 'bench',
    // The user's own AWS configuration is not used.
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  return {
    env,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
