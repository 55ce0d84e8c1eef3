import { existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { formatProblem, type Problem } from '../../src/core/errors';
import { readRepository, type Repository, type Selection } from '../../src/model';
import { SHIPPED_MODELS } from '../../tools/shipped-models';

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
    // Like torch.jit.save, compress only code.
    const method = name.endsWith('.py') && content.length > 0 ? 8 : 0;
    const packed = method === 8 ? deflateRawSync(content) : content;
    const local = Buffer.alloc(30 + name.length);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(name.length, 26);
    local.write(name, 30, 'latin1');
    const entry = Buffer.alloc(46 + name.length);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(content.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    entry.write(name, 46, 'latin1');
    locals.push(local, packed);
    entries.push(entry);
    offset += local.length + packed.length;
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

/** Like `zip`, but with the zip64 end record (APPNOTE 4.3.14), which has size and offset of the central directory. */
export function zip64(names: readonly string[]): Buffer {
  const whole = zip(names);
  const [entries, end] = [whole.subarray(0, -22), Buffer.from(whole.subarray(-22))];
  const end64 = Buffer.alloc(56);
  end64.writeUInt32LE(0x06064b50, 0);
  end64.writeBigUInt64LE(BigInt(end.readUInt32LE(12)), 40);
  end64.writeBigUInt64LE(BigInt(end.readUInt32LE(16)), 48);
  end.writeUInt32LE(0xffffffff, 12);
  end.writeUInt32LE(0xffffffff, 16);
  return Buffer.concat([entries, end64, end]);
}

/** An archive with the names that torch.jit.save writes. */
export const torchScript = (): Buffer =>
  zip(['model/data.pkl', 'model/code/__torch__/m.py', 'model/constants.pkl', 'model/version']);

/** The archive of a class Net whose forward has the arguments `list`, such as `x: Tensor,\n    y: Tensor`, `attributes` in a pickle, and that returns `answer`. */
export function getTorchScript(list: string, returns = 'Tensor', attributes = '', answer = 'x'): Buffer {
  const other = 'class Other(Module):\n  def forward(self: __torch__.m.Other,\n    a: bool) -> Tensor:\n    return 0\n';
  const taken = list === '' ? '' : `,\n    ${list}`;
  const code = `${other}class Net(Module):\n  training : bool\n  def forward(self: __torch__.m.Net${taken}) -> ${returns}:\n    return ${answer}\n`;
  const contents = {
    'model/data.pkl': `\x80\x02c__torch__.m\nNet\nq\x00)\x81}${attributes}`,
    'model/code/__torch__/m.py': code,
  };
  return zip([...Object.keys(contents), 'model/constants.pkl'], contents);
}
