import { createServer } from 'node:http';
import { openWeb, WebError } from '../../../infra/doctor/web';
import { listenOnLoopback } from '../../support/loopback';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

test.each(['http://[', 'https://a b/', 'http://registry.example/v2/', 'ftp://127.0.0.1/'])(
  'a redirect to %s is an error for the user, which ends no other check',
  async (location) => {
    const server = await listenOnLoopback(createServer((_, response) => response.writeHead(307, { location }).end()));
    scratch.defer(() => server.stop());
    const web = await openWeb('us-east-1');
    scratch.defer(() => web.close());
    await expect(web.ask(`http://127.0.0.1:${server.port}/v2/`)).rejects.toThrow(WebError);
  },
);
