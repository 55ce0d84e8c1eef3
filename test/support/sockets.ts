import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** The sockets on which a process listens, according to the kernel. */
export interface Listening {
  ports: number[];
  /** Addresses other than 127.0.0.1, in the kernel's hexadecimal form. */
  elsewhere: string[];
  /** Paths of Unix sockets. */
  unix: string[];
}

const LOOPBACK = '0100007F';
const LISTENS = '0A';

/** All sockets on which a process listens (Linux). */
export function getListening(pid: number): Listening {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).map((fd) => /^socket:\[(\d+)\]$/.exec(getLink(`/proc/${pid}/fd/${fd}`))?.[1]),
  );
  const rows = (table: string): string[][] =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/));
  const addresses = ['tcp', 'tcp6']
    .flatMap(rows)
    .filter((row) => row[3] === LISTENS && inodes.has(row[9]))
    .map((row) => (row[1] as string).split(':') as [string, string]);
  return {
    ports: addresses.filter(([host]) => host === LOOPBACK).map(([, port]) => parseInt(port, 16)),
    elsewhere: addresses.filter(([host]) => host !== LOOPBACK).map(([host]) => host),
    unix: rows('unix').flatMap((row) => (inodes.has(row[6]) && row[7] !== undefined ? [row[7]] : [])),
  };
}

function getLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // The file was closed in the meantime.
  }
}
