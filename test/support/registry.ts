import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { freePorts } from '../../src/local/process/ports';
import { isHealthy } from '../../src/local/process/health-check';
import { ManagedProcess } from '../../src/local/process/managed-process';
import type { Scratch } from './temp-dir';

const START_TIMEOUT_MS = 30_000;
const STOP_GRACE_MS = 2000;

/** A container registry on 127.0.0.1, which is a part of crane. */
interface Registry {
  /** `127.0.0.1:PORT` */
  host: string;
}

export async function startRegistry(scratch: Scratch, crane: string, python: string): Promise<Registry> {
  const [port] = (await freePorts(1)) as [number];
  const host = `127.0.0.1:${port}`;
  const registry = new ManagedProcess({
    name: 'registry',
    command: crane,
    args: ['registry', 'serve', '--address', host],
    logFile: join(scratch.directory, `registry-${port}.log`),
    python,
  });
  const stop = (): Promise<void> => registry.stop(STOP_GRACE_MS);
  scratch.defer(stop);
  await registry.untilReady(() => isHealthy(`http://${host}/v2/`), START_TIMEOUT_MS, stop);
  return { host };
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

async function send(method: string, url: string, type?: string, body?: Buffer): Promise<Response> {
  const response = await fetch(url, {
    method,
    ...(type && { headers: { 'content-type': type } }),
    ...(body && { body }),
  });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response;
}

/** Pushes an image for two architectures, with random layers. @returns the digest of its index */
export async function pushImage({ host }: Registry, repository: string, tag: string): Promise<string> {
  const base = `http://${host}/v2/${repository}`;
  const pushBlob = async (bytes: Buffer): Promise<{ digest: string; size: number }> => {
    const digest = digestOf(bytes);
    const started = await send('POST', `${base}/blobs/uploads/`);
    const upload = new URL(started.headers.get('location') ?? '', base);
    upload.searchParams.set('digest', digest);
    await send('PUT', upload.href, 'application/octet-stream', bytes);
    return { digest, size: bytes.length };
  };
  const pushManifest = async (reference: string | undefined, manifest: { mediaType: string }) => {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, ...manifest }));
    const digest = digestOf(bytes);
    await send('PUT', `${base}/manifests/${reference ?? digest}`, manifest.mediaType, bytes);
    return { mediaType: manifest.mediaType, digest, size: bytes.length };
  };
  const manifests = [];
  for (const architecture of ['amd64', 'arm64']) {
    const mediaType = 'application/vnd.oci.image.layer.v1.tar+gzip';
    const layer = await pushBlob(randomBytes(20_000));
    const rootfs = { type: 'layers', diff_ids: [layer.digest] };
    const config = await pushBlob(Buffer.from(JSON.stringify({ architecture, os: 'linux', rootfs })));
    const manifest = await pushManifest(undefined, {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      ...{ config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config } },
      ...{ layers: [{ mediaType, ...layer }] },
    });
    manifests.push({ ...manifest, platform: { os: 'linux', architecture } });
  }
  const index = { mediaType: 'application/vnd.oci.image.index.v1+json', manifests };
  return (await pushManifest(tag, index)).digest;
}
