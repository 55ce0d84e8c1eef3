import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publish } from '../../src/publish/publish';
import { writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const CONFIG = 'backend: "anything"\nversion_policy { specific { versions: [1] } }\n';

test('export --release writes the files of an earlier release as a model repository', async () => {
  const { endpoint } = await testS3(scratch);
  const store = await openBucket(scratch, endpoint, 'models');
  const location = { bucket: 'models', prefix: 'm' };
  const options = { store, location, untried: true, loadTimeoutMs: 1000, waitMs: 0 };
  const folder = (labels: string): string =>
    writeRepository(join(scratch.directory, 'source'), {
      ...{ 'a/config.pbtxt': CONFIG, 'a/1/weights/w.bin': 'weights', 'a/labels.txt': labels },
      ...{ 'e/config.pbtxt': CONFIG, 'e/1/weights.bin': 'e' },
    });
  const { release } = await publish({ ...options, repository: folder('old') });
  await publish({ ...options, repository: folder('new') });
  const out = join(scratch.directory, 'out');
  const run = async (id: string): Promise<string> => {
    const flags = ['--bucket', 's3://models/m', '--endpoint-url', endpoint, '--out', out];
    const { stdout, stderr } = await runCommandLine('export', ['--release', id, ...flags], S3_ENVIRONMENT);
    return stdout + stderr;
  };
  expect(await run('current')).toContain('Exported release ');
  expect(readFileSync(join(out, 'a/labels.txt'), 'utf8')).toBe('new');
  expect(await run(release?.id.slice(-8) ?? '')).toContain(`Exported release ${release?.id}, 2 models`);
  expect(readFileSync(join(out, 'a/labels.txt'), 'utf8')).toBe('old');
  expect(readFileSync(join(out, 'a/1/weights/w.bin'), 'utf8')).toBe('weights');
  expect(readFileSync(join(out, 'a/config.pbtxt'), 'utf8')).toContain('version_policy { specific { versions: [1] } }');
  expect(readdirSync(scratch.directory).filter((name) => name.startsWith('out'))).toEqual(['out']);
  expect(await run('nothing')).toContain('retains no release whose id contains "nothing"');
});
