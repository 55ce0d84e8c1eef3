import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { modelYaml, torchScript } from './model-files';

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
