import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { S3Store } from '../../scripts/lib/s3/store';
import type { Scratch } from './scratch';

/** What a server that loads a model does. */
export type Loading = 'ok' | 'refuse' | 'crash';

export interface FakeTriton {
  url: string;
  /** What it serves. */
  loaded: Map<string, { digest: string | undefined; versions: string[] }>;
  /** Names of the models that it was asked to load, and to unload. */
  loads: string[];
  unloads: string[];
}

/**
 * Stands in for a Triton that reads `models/` of a bucket, where a real one cannot be brought to do what is wanted:
 * to die while it loads. All else is tested with real ones.
 */
export async function fakeTriton(
  scratch: Scratch,
  store: S3Store,
  onLoad: (model: string) => Loading = () => 'ok',
): Promise<FakeTriton> {
  const fake: FakeTriton = { url: '', loaded: new Map(), loads: [], unloads: [] };
  const load = async (name: string): Promise<void> => {
    const config = (await store.get(`models/${name}/config.pbtxt`))?.body.toString() ?? '';
    const digest = /published_digest[\s\S]*?string_value: "(\w+)"/.exec(config)?.[1];
    const versions = /versions: \[([^\]]*)\]/.exec(config)?.[1]?.split(', ') ?? [];
    fake.loaded.set(name, { digest, versions });
  };
  const server = createServer((request, response) => {
    const answer = (status: number, body: unknown): void => {
      response.statusCode = status;
      response.end(JSON.stringify(body));
    };
    const url = request.url ?? '';
    const model = /models\/([^/]+)/.exec(url)?.[1] ?? '';
    if (url.endsWith('/index')) {
      const entries = [...fake.loaded].flatMap(([name, { versions }]) =>
        versions.map((version) => ({ name, version, state: 'READY' })),
      );
      answer(200, entries);
    } else if (url.endsWith('/config')) {
      answer(200, { parameters: { published_digest: { string_value: fake.loaded.get(model)?.digest } } });
    } else if (url.endsWith('/unload')) {
      fake.unloads.push(model);
      fake.loaded.delete(model);
      answer(200, {});
    } else if (url.endsWith('/load')) {
      fake.loads.push(model);
      const how = onLoad(model);
      if (how === 'crash') request.socket.destroy();
      else if (how === 'refuse') answer(400, { error: 'it is broken' });
      else void load(model).then(() => answer(200, {}));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  scratch.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  fake.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return fake;
}
