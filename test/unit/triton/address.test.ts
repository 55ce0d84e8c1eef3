import { TritonGrpcClient } from '../../../src/triton/grpc';
import { TritonHttpClient } from '../../../src/triton/http';
import { serverUrl } from '../../../src/triton/address';

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
