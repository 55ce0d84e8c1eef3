import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import * as https from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { TritonGrpcClient } from '../../../src/triton/grpc';
import { TritonHttpClient } from '../../../src/triton/http';
import { describeUnless } from '../../support/describe-unless';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const missing = spawnSync('openssl', ['version']).status === 0 ? undefined : 'openssl is not on PATH';

/** A certificate of its own authority, for 127.0.0.1. */
function certificate(name: string): { cert: Buffer; key: Buffer } {
  const files = { cert: join(scratch.directory, `${name}.crt`), key: join(scratch.directory, `${name}.key`) };
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...request, ...subject, '-keyout', files.key, '-out', files.cert], { stdio: 'ignore' });
  return { cert: readFileSync(files.cert), key: readFileSync(files.key) };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  scratch.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  return (server.address() as AddressInfo).port;
}

describeUnless(missing, 'TLS', () => {
  const servers = {
    HTTP: {
      port: 0,
      connect: (port: number, tls: object) => new TritonHttpClient(`https://127.0.0.1:${port}`, { tls }),
    },
    gRPC: {
      port: 0,
      connect: (port: number, tls: object) => new TritonGrpcClient(`https://127.0.0.1:${port}`, { tls }),
    },
  };
  let own: { cert: Buffer; key: Buffer };
  let client: { cert: Buffer; key: Buffer };

  beforeAll(async () => {
    own = certificate('server');
    client = certificate('client');
    // Requires a client certificate, and accepts only this one.
    const options = { ...own, ca: client.cert, requestCert: true, rejectUnauthorized: true };
    servers.HTTP.port = await listen(https.createServer(options, (_, response) => response.end()));
    const grpc = createSecureServer(options);
    grpc.on('stream', (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(Buffer.from('00000000020801', 'hex')); // ServerLiveResponse { live: true }
    });
    servers.gRPC.port = await listen(grpc);
  });

  describe.each(['HTTP', 'gRPC'] as const)('over %s', (protocol) => {
    const live = async (tls: object): Promise<boolean> => {
      const { port, connect } = servers[protocol];
      const connected = connect(port, tls);
      try {
        return await connected.live();
      } finally {
        connected.close();
      }
    };

    it('the client trusts the given authority and sends its certificate', async () => {
      await expect(live({ ca: own.cert, ...client })).resolves.toBe(true);
    });

    it('the client trusts no other authority', async () => {
      await expect(live({ ca: client.cert, ...client })).rejects.toMatchObject({
        status: 'unreachable',
        message: expect.stringMatching(/self-signed certificate/) as string,
      });
    });

    it('the server rejects a client without a certificate', async () => {
      await expect(live({ ca: own.cert })).rejects.toMatchObject({ status: 'unreachable' });
    });
  });
});
