import { TritonGrpcClient } from '../../../src/triton/grpc';
import { TritonHttpClient } from '../../../src/triton/http';
import { serverUrl } from '../../../src/triton/client';
import { createSecureServer } from 'node:http2';
import * as https from 'node:https';
import { selfSignedCertificate } from '../../../src/local/certificate';
import { listenOnLoopback } from '../../support/loopback';

test.each([
  ['http://127.0.0.1:8000', 'http://127.0.0.1:8000'],
  ['127.0.0.1:8000', 'http://127.0.0.1:8000'],
  ['localhost:8000/', 'http://localhost:8000'],
  ['[::1]:8000', 'http://[::1]:8000'],
  ['https://triton.example.com/path//', 'https://triton.example.com/path'],
])('serverUrl reads %s', (address, url) => {
  expect(serverUrl(address)).toBe(url);
});

test.each(['', 'http://', 'ftp://127.0.0.1:21', '127.0.0.1:port', 'http:///path'])(
  'both clients reject the address %p',
  (address) => {
    const error = {
      name: 'UserError',
      message: `"${address}" is not the address of a server`,
      hint: 'write http://HOST:PORT, https://HOST:PORT or HOST:PORT',
    };
    for (const Client of [TritonHttpClient, TritonGrpcClient]) {
      expect(() => new Client(address)).toThrow(expect.objectContaining(error) as Error);
    }
  },
);

const { key, certificate: cert } = selfSignedCertificate();

test.each<
  [string, https.Server | ReturnType<typeof createSecureServer>, (address: string) => { live(): Promise<boolean> }]
>([
  ['HTTP', https.createServer({ key, cert }), (address) => new TritonHttpClient(address)],
  ['gRPC', createSecureServer({ key, cert }), (address) => new TritonGrpcClient(address)],
])('the client verifies the certificate of an https address over %s', async (_, server, connect) => {
  const { port, stop } = await listenOnLoopback(server);
  await expect(connect(`https://127.0.0.1:${port}`).live()).rejects.toMatchObject({
    status: 'unreachable',
    message: expect.stringMatching(/self-signed certificate/) as string,
  });
  await stop();
});
