import { status } from '@grpc/grpc-js';
import { existsSync, statSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { connect } from 'node:tls';
import { selfSignedCertificate } from '../../src/local/certificate';
import type { S3Server } from '../../src/local/s3-server';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import { callGrpc } from '../support/grpc';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

/** The sockets on which a process listens, according to the kernel. */
interface Listening {
  ports: number[];
  /** Addresses other than 127.0.0.1, in the kernel's hexadecimal form. */
  elsewhere: string[];
  /** Paths of Unix sockets. */
  unix: string[];
}

const LOOPBACK = '0100007F';
const LISTENS = '0A';

/** All sockets on which a process listens (Linux). */
function getListening(pid: number): Listening {
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

// Attacks by another user of the machine or a web page on every port of the S3 server of npm run local.

const scratch = new Scratch();
afterAll(() => scratch.clean());

const BUCKET = 'guarded';
const KEY = 'model.py';
const BODY = Buffer.from('what the user published');

let server: S3Server;
let store: S3Store;
let listening: Listening;
beforeAll(async () => {
  server = await testS3(scratch);
  store = await openBucket(scratch, server.endpoint, BUCKET);
  await store.putBytes(KEY, BODY);
  listening = getListening(server.pid as number);
});

const s3Port = (): number => Number(new URL(server.endpoint).port);

const expectUnchanged = async (): Promise<void> => expect((await store.get(KEY))?.body).toEqual(BODY);

/** Requests to the filer, the S3 API, the master and the volume server, without a key. */
const REQUESTS: [method: string, path: string][] = [
  ['GET', `/buckets/${BUCKET}/${KEY}`],
  ['PUT', `/buckets/${BUCKET}/${KEY}`],
  ['DELETE', `/buckets/${BUCKET}/${KEY}`],
  ['GET', `/${BUCKET}/${KEY}`],
  ['PUT', `/${BUCKET}/${KEY}`],
  ['GET', '/dir/assign'],
  ['GET', '/dir/lookup?volumeId=1'],
  ['POST', '/submit'],
  ['GET', `/col/delete?collection=${BUCKET}`],
  ['GET', '/1,0123456789'],
  ['POST', '/1,0123456789'],
];

type Target = { port: number } | { socketPath: string };

/** @returns the status, or 0 if there is no answer */
function send(target: Target, method: string, path: string): Promise<number> {
  return new Promise((resolve) => {
    const sent = request({ host: '127.0.0.1', method, path, timeout: 30_000, ...target }, (answer) => {
      answer.resume().once('close', () => resolve(answer.statusCode ?? 0));
    });
    sent.once('timeout', () => sent.destroy()).once('error', () => resolve(0));
    sent.end(method === 'GET' ? undefined : 'changed');
  });
}

/** Connects with TLS and HTTP/2. @returns the code of the connection's error, or `let in` or `ended` */
function speakTls(port: number, own: { key?: string; cert?: string }): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['h2'], ...own });
    const end = (how: string): void => {
      socket.destroy();
      resolve(how);
    };
    // A server sends HTTP/2 settings to a client that it accepts.
    socket.once('data', () => end('let in')).once('end', () => end('ended'));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}

/** A protobuf message with strings as fields 1, 2 and so on. */
const strings = (...texts: string[]): Buffer =>
  Buffer.concat(texts.map((text, i) => Buffer.from([((i + 1) << 3) | 2, text.length, ...Buffer.from(text)])));

const CALLS: [path: string, message: Buffer][] = [
  ['/filer_pb.SeaweedFiler/LookupDirectoryEntry', strings(`/buckets/${BUCKET}`, KEY)],
  ['/filer_pb.SeaweedFiler/DeleteEntry', strings(`/buckets/${BUCKET}`, KEY)],
  ['/master_pb.Seaweed/Assign', Buffer.of()],
  ['/master_pb.Seaweed/CollectionDelete', strings(BUCKET)],
  ['/volume_server_pb.VolumeServer/VolumeDelete', Buffer.from([0x08, 1])],
];

test('the S3 server listens only on 127.0.0.1, and its Unix sockets belong to its user', () => {
  expect(listening.ports.length).toBeGreaterThanOrEqual(8);
  expect(listening.ports).toContain(s3Port());
  expect(listening.elsewhere).toEqual([]);
  expect(listening.unix.length).toBeGreaterThan(0);
  for (const path of listening.unix) expect([path, statSync(path).mode & 0o077]).toEqual([path, 0]);
});

test('no HTTP request without a key reads or changes an object', async () => {
  const targets: Target[] = [
    ...listening.ports.map((port) => ({ port })),
    ...listening.unix.map((socketPath) => ({ socketPath })),
  ];
  const answers = targets.flatMap((target) =>
    REQUESTS.map(async ([method, path]) => ({ target, method, path, status: await send(target, method, path) })),
  );
  // The ports require TLS or a key, or speak gRPC, which does not answer plain HTTP.
  expect((await Promise.all(answers)).filter(({ status: code }) => code !== 0 && code < 400)).toEqual([]);
  await expectUnchanged();
});

test('no gRPC call without TLS is answered', async () => {
  const addresses = [
    ...listening.ports.filter((port) => port !== s3Port()).map((port) => `127.0.0.1:${port}`),
    ...listening.unix.filter((path) => path.includes('-grpc-')).map((path) => `unix:${path}`),
  ];
  const calls = addresses.flatMap((address) =>
    CALLS.map(async ([path, message]) => {
      const error = await callGrpc(address, path, message);
      return { address, path, code: status[error?.code ?? status.OK] };
    }),
  );
  // A server that gets a call answers it, or returns UNIMPLEMENTED for an unknown method.
  expect((await Promise.all(calls)).filter(({ code }) => code !== 'UNAVAILABLE')).toEqual([]);
  await expectUnchanged();
});

test('every TLS port except the S3 API requires the certificate of the server', async () => {
  const { key, certificate: cert } = selfSignedCertificate();
  const ports = listening.ports.filter((port) => port !== s3Port());
  for (const own of [{}, { key, cert }]) {
    const ends = await Promise.all(ports.map((port) => speakTls(port, own)));
    expect(ends.filter((end) => !/_ALERT_(CERTIFICATE_REQUIRED|BAD_CERTIFICATE|UNKNOWN_CA)$/.test(end))).toEqual([]);
  }
  await expectUnchanged();
});

test('the S3 server deletes its Unix sockets in /tmp when it stops', async () => {
  await server.stop();
  expect(listening.unix.filter((path) => existsSync(path))).toEqual([]);
});

test('acknowledged writes survive a kill of the S3 server', async () => {
  const bodies = Array.from({ length: 20 }, (_, i) => Buffer.alloc(300_000, i));
  const first = await testS3(scratch, 'durable');
  const store = await openBucket(scratch, first.endpoint, 'durable');
  await Promise.all(bodies.map((body, i) => store.putBytes(`o/${i}`, body)));
  await first.stop();

  const again = await openBucket(scratch, (await testS3(scratch, 'durable')).endpoint, 'durable');
  expect((await again.list('o/')).length).toBe(bodies.length);
  for (const [i, body] of bodies.entries()) {
    expect(await again.checksum(`o/${i}`, body.byteLength)).toBe(checksumOfBytes(body));
  }
});

test('the S3 server writes its output only to its log file', async () => {
  const printing = await testS3(scratch, 'printing');
  await openBucket(scratch, printing.endpoint, 'printing');
  await printing.stop();
  expect(readFileSync(printing.logFile, 'utf8')).toMatch(/Start Seaweed S3 API Server/);
  expect(readdirSync(tmpdir()).filter((name) => name.endsWith(`.${printing.pid}`))).toEqual([]);
});
