import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import { exec, type Output } from '../../src/core/exec';
import { freePorts } from '../../src/local/process/ports';
import { ensureVerdaccio } from '../../tools/toolchain/verdaccio';
import { ended } from './run';
import type { Scratch } from './temp-dir';
import { until } from './wait-for';

/** A registry for npm packages on loopback. It gets what it does not have from the registry of this machine's npm. */
export class NpmRegistry {
  private constructor(
    private readonly directory: string,
    private readonly url: string,
  ) {}

  static async start(scratch: Scratch): Promise<NpmRegistry> {
    const directory = join(scratch.directory, 'registry');
    mkdirSync(directory, { recursive: true });
    const { stdout: upstream } = await exec('npm', ['config', 'get', 'registry']);
    const [port = 0] = await freePorts(1);
    const url = `http://127.0.0.1:${port}/`;
    const config = {
      storage: join(directory, 'storage'),
      uplinks: { upstream: { url: upstream.trim() } },
      packages: {
        // Ours come from here only, also when they are published elsewhere.
        'triton-serving': { access: '$all', publish: '$all' },
        '@triton-serving/*': { access: '$all', publish: '$all' },
        '**': { access: '$all', proxy: 'upstream' },
      },
      max_body_size: '100mb',
      web: { enable: false },
      log: { type: 'stdout', format: 'pretty', level: 'warn' },
    };
    writeFileSync(join(directory, 'config.yaml'), dump(config));
    // npm publishes nothing without a token.
    writeFileSync(join(directory, 'npmrc'), `registry=${url}\n${url.replace('http:', '')}:_authToken=of-a-test\n`);
    const args = [await ensureVerdaccio(), '--config', join(directory, 'config.yaml'), '--listen', `127.0.0.1:${port}`];
    const child = spawn(process.execPath, args, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
    const end = ended(child);
    scratch.defer(async () => {
      child.kill();
      await end;
    });
    const registry = new NpmRegistry(directory, url);
    await until('the registry answers', async () => (await fetch(`${url}-/ping`).catch(() => undefined))?.ok === true);
    return registry;
  }

  /** Settings of npm for this registry, with an empty cache. */
  get env(): NodeJS.ProcessEnv {
    const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
    return {
      ...Object.fromEntries(own),
      npm_config_userconfig: join(this.directory, 'npmrc'),
      npm_config_registry: this.url,
      npm_config_cache: join(this.directory, 'cache'),
      npm_config_update_notifier: 'false',
      npm_config_fund: 'false',
      npm_config_audit: 'false',
    };
  }

  /** Runs a program of npm: `npm publish`, `npx triton-serving local`. */
  run(folder: string, program: string, ...args: string[]): Promise<Output> {
    return exec(program, args, { cwd: folder, env: this.env });
  }
}
