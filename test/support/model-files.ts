import { existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path, { join } from 'node:path';
import { formatProblem, type Problem } from '../../src/core/errors';
import { readRepository, type Repository, type Selection } from '../../src/model';
import { SHIPPED_MODELS } from '../../tools/shipped-models';
import { createHash } from 'node:crypto';

const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/** A file as a trace record names it. */
export const recorded = (path: string, content: string | Buffer) => ({
  path,
  bytes: Buffer.byteLength(content),
  sha256: sha256(content),
});

/**
 * A model as `npm run trace` leaves it: files for writeRepository. The record also names a source outside of the model
 * folder that does not exist, and a file of another release of this package.
 */
export function tracedModel(
  name: string,
  version = 1,
  checked: 'quick' | 'thorough' = 'thorough',
): Record<string, string | Buffer> {
  const sources = {
    'model.yaml': modelYaml(),
    'trace.py': 'import net\n',
    'net.py': 'LAYERS = 3\n',
    'weights.pth': 'weights',
    '../shared.py': 'SHARED = 1\n',
  };
  const artifact = `${version}/model.pt`;
  const labels = 'cat\ndog\n';
  const record = {
    artifact: recorded(artifact, torchScript()),
    data_files: [],
    extra_files: [recorded('labels.txt', labels)],
    golden: [],
    checked,
    max_batch_size: 8,
    input_dims: [[3]],
    sources: {
      ...Object.fromEntries(Object.entries(sources).map(([path, content]) => [path, sha256(content)])),
      '../../elsewhere/absent.py': sha256('absent'),
      'python/tracing/make.py': sha256('other'),
    },
  };
  const files = { ...sources, 'labels.txt': labels, [artifact]: torchScript() };
  return Object.fromEntries([
    ...Object.entries(files).map(([path, content]) => [join(name, path), content]),
    // Last, as the trace writes it.
    [`${name}/${artifact}.trace.json`, JSON.stringify(record)],
  ]) as Record<string, string | Buffer>;
}

/** The model repository of this project. */
export const MODEL_REPO = path.join(__dirname, '../../model-repo');

/** The names of the shipped models, in order. A user's repository may have more. */
export const MODELS = SHIPPED_MODELS;

/** In memory if possible, because tests write thousands of small files. */
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const made: string[] = [];

/** A new folder with these files: path -> content. A path that ends in `/` is an empty folder. See `removeFolders`. */
export function folder(files: Record<string, string | Buffer>): string {
  const root = realpathSync(mkdtempSync(path.join(PLACE, 'model-test-')));
  made.push(root);
  for (const [key, content] of Object.entries(files)) {
    const at = path.join(root, key);
    mkdirSync(key.endsWith('/') ? at : path.dirname(at), { recursive: true });
    if (!key.endsWith('/')) writeFileSync(at, content);
  }
  return root;
}

export async function removeFolders(): Promise<void> {
  await Promise.all(made.splice(0).map((root) => rm(root, { recursive: true, force: true })));
}

/** Problems as printed for users, with paths relative to `root`. */
export const texts = (problems: readonly Problem[], root: string): string[] =>
  problems.map((problem) => formatProblem(problem).replaceAll(`${root}/`, '').replaceAll(root, '.'));

/** Reads a folder, and adds its problems as printed for users. */
export async function read(root: string, selection?: Selection): Promise<Repository & { texts: string[] }> {
  const repository = await readRepository(root, selection);
  return { ...repository, texts: texts(repository.problems, root) };
}

/** Problems of a repository with these configurations, without the prefix `m/model.yaml: ` of the model m. */
export async function getProblems(configs: Record<string, string>): Promise<string[]> {
  const root = folder(Object.fromEntries(Object.entries(configs).map(([name, text]) => [`${name}/model.yaml`, text])));
  const { problems } = await readRepository(root, { artifacts: false });
  return texts(problems, root).map((text) => text.replace(/^m\/model\.yaml: /, ''));
}

type Fields = Record<string, unknown>;

/** The model.yaml of a valid TorchScript model with some fields replaced; undefined removes a field. */
export function modelYaml(fields: Fields = {}): string {
  return JSON.stringify({
    platform: 'pytorch_libtorch',
    max_batch_size: 8,
    input: [{ name: 'input__0', data_type: 'TYPE_FP32', dims: [3] }],
    output: [{ name: 'output__0', data_type: 'TYPE_FP32', dims: [4] }],
    ...fields,
  });
}

/** A zip archive (APPNOTE 4.3) of files, by default empty, for code that reads names of entries. */
export function zip(names: readonly string[], contents: Readonly<Record<string, string>> = {}): Buffer {
  const locals: Buffer[] = [];
  const entries: Buffer[] = [];
  let offset = 0;
  for (const name of names) {
    const content = Buffer.from(contents[name] ?? '', 'latin1');
    const local = Buffer.alloc(30 + name.length);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(name.length, 26);
    local.write(name, 30, 'latin1');
    const entry = Buffer.alloc(46 + name.length);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt32LE(content.length, 20);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    entry.write(name, 46, 'latin1');
    locals.push(local, content);
    entries.push(entry);
    offset += local.length + content.length;
  }
  const directory = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(names.length, 8);
  end.writeUInt16LE(names.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, directory, end]);
}

/** An archive with the names that torch.export.save, or AOTInductor, writes. */
export const program = (kind: 'exported' | 'compiled'): Buffer =>
  zip([kind === 'exported' ? 'model/models/model.json' : 'model/data/aotinductor/model/m.so', 'model/archive_format']);

/** An archive with the names that torch.jit.save writes. */
export const torchScript = (): Buffer =>
  zip(['model/data.pkl', 'model/code/__torch__/m.py', 'model/constants.pkl', 'model/version']);
