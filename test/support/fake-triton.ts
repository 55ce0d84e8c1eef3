import { createServer } from 'node:http';
import type { S3Store } from '../../src/s3/store';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

/** Reaction of a server to a request to load a model. The last three answer 200. */
export type Loading = 'ok' | 'refuse' | 'crash' | 'no answer' | 'first version unavailable' | 'ready later' | 'absent';

/** Reaction of a server to a request to unload a model. `endless` answers 200 and reports UNLOADING from then on. */
export type Unloading = 'ok' | 'refuse' | 'endless' | 'no answer';

/** How often the index reports LOADING for a model that is `ready later`. */
const LOADING_LOOKS = 3;

export interface FakeTriton {
  url: string;
  /** Name of a loaded model -> digest of its configuration and versions. */
  loaded: Map<string, { digest: string | undefined; versions: string[] }>;
  /** Names of models in requests to load and to unload. */
  loads: string[];
  unloads: string[];
}

/**
 * Replaces a Triton that reads `models/` of a bucket, in tests that need behaviour which a real server cannot be made
 * to show, such as a crash during a load. Other tests use real servers.
 */
export async function fakeTriton(
  scratch: Scratch,
  store: S3Store,
  onLoad: (model: string) => Loading = () => 'ok',
  onUnload: (model: string) => Unloading = () => 'ok',
): Promise<FakeTriton> {
  const fake: FakeTriton = { url: '', loaded: new Map(), loads: [], unloads: [] };
  /** Model -> state of its versions, if not READY. Undefined means that the index lacks the version. */
  const states = new Map<string, (version: string) => string | undefined>();
  const load = async (name: string, how: Loading): Promise<void> => {
    const config = (await store.get(`models/${name}/config.pbtxt`))?.body.toString() ?? '';
    const digest = /published_digest[\s\S]*?string_value: "(\w+)"/.exec(config)?.[1];
    const versions = [...config.matchAll(/versions: \[?([\d, ]+)/g)].flatMap(([, list = '']) => list.split(', '));
    fake.loaded.set(name, { digest, versions });
    let looks = 0;
    states.delete(name);
    if (how === 'absent') states.set(name, () => undefined);
    if (how === 'ready later') states.set(name, () => ((looks += 1) > LOADING_LOOKS ? 'READY' : 'LOADING'));
    if (how === 'first version unavailable') {
      states.set(name, (version) => (version === versions[0] ? 'UNAVAILABLE' : 'READY'));
    }
  };
  const index = (): object[] =>
    [...fake.loaded].flatMap(([name, { versions }]) =>
      versions.flatMap((version) => {
        const getState = states.get(name) ?? ((): string => 'READY');
        const state = getState(version);
        return state === undefined ? [] : [{ name, version, state, reason: '' }];
      }),
    );
  const server = createServer((request, response) => {
    const answer = (status: number, body: unknown): void => {
      response.statusCode = status;
      response.end(JSON.stringify(body));
    };
    const url = request.url ?? '';
    const model = /models\/([^/]+)/.exec(url)?.[1] ?? '';
    if (url.endsWith('/index')) {
      answer(200, index());
    } else if (url.endsWith('/config')) {
      answer(200, { parameters: { published_digest: { string_value: fake.loaded.get(model)?.digest } } });
    } else if (url.endsWith('/infer')) {
      // The model has no inputs and outputs, like the configuration in the answer above.
      answer(200, { model_name: model, model_version: '1', outputs: [] });
    } else if (url.endsWith('/unload')) {
      fake.unloads.push(model);
      const how = onUnload(model);
      if (how === 'no answer') return;
      if (how === 'refuse') return answer(400, { error: 'it is needed' });
      if (how === 'endless') states.set(model, () => 'UNLOADING');
      else fake.loaded.delete(model);
      answer(200, {});
    } else if (url.endsWith('/load')) {
      fake.loads.push(model);
      const how = onLoad(model);
      if (how === 'no answer') return;
      if (how === 'crash') request.socket.destroy();
      else if (how === 'refuse') answer(400, { error: 'it is broken' });
      else void load(model, how).then(() => answer(200, {}));
    }
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  fake.url = `http://127.0.0.1:${port}`;
  return fake;
}
