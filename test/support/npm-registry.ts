import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { exec, type Output } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

/** A registry on loopback that has the npm package of this repository. Others come from the registry of this machine's npm. */
export class NpmRegistry {
  private constructor(
    private readonly directory: string,
    private readonly url: string,
  ) {}

  static async start(scratch: Scratch): Promise<NpmRegistry> {
    const directory = join(scratch.directory, 'registry');
    mkdirSync(directory, { recursive: true });
    const { stdout: upstream } = await exec('npm', ['config', 'get', 'registry']);
    const { stdout } = await exec('npm', ['pack', '--json', '--silent', '--pack-destination', directory], {
      cwd: paths.root,
    });
    // The scripts of npm print before it.
    const [packed] = JSON.parse(stdout.slice(stdout.search(/^\[/m))) as [
      { name: string; version: string; filename: string; integrity: string },
    ];
    const manifest = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as object;
    const server = createServer((request, response) => {
      const path = (request.url ?? '').slice(1);
      if (path === packed.filename) return response.end(readFileSync(join(directory, packed.filename)));
      if (path !== packed.name) return response.writeHead(302, { location: `${upstream.trim()}${path}` }).end();
      const { name, version, filename, integrity } = packed;
      const dist = { tarball: `http://${request.headers.host}/${filename}`, integrity };
      const versions = { [version]: { ...manifest, dist } };
      return response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }));
    });
    const { port, stop } = await listenOnLoopback(server);
    scratch.defer(stop);
    return new NpmRegistry(directory, `http://127.0.0.1:${port}/`);
  }

  /** Settings of npm for this registry, with an empty cache. Pulumi's settings are those of the test. */
  get env(): NodeJS.ProcessEnv {
    const own = Object.entries(process.env).filter(([name]) => !/^(npm|pulumi)_/i.test(name));
    return {
      ...Object.fromEntries(own),
      npm_config_registry: this.url,
      npm_config_cache: join(this.directory, 'cache'),
      npm_config_update_notifier: 'false',
      npm_config_fund: 'false',
      npm_config_audit: 'false',
    };
  }

  /** Runs a program of npm, such as `npx triton-serving local`. */
  run(folder: string, program: string, ...args: string[]): Promise<Output> {
    return exec(program, args, { cwd: folder, env: this.env });
  }
}
