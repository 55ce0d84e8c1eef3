import { join } from 'node:path';
import { cached } from '../../src/install/cache';
import { NpmPins } from './npm-pins';

/** Verdaccio, a registry for npm packages (MIT licence). */
const PINS = new NpmPins('verdaccio');

/** Returns the start file of Verdaccio, for `node`. */
export async function ensureVerdaccio(): Promise<string> {
  const directory = await cached(`verdaccio-${PINS.version('verdaccio')}`, (target) => PINS.install(target));
  return join(directory, 'node_modules', 'verdaccio', 'bin', 'verdaccio');
}
