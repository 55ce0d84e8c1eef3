import { randomBytes } from 'node:crypto';

/** The id of a new release and of the run that makes it. Ids sort by time: `20261120T113254123Z-1f2e3d4c`. */
export const newId = (now = new Date()): string =>
  `${now.toISOString().replace(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`;
