import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import { publisher } from '../support/publish';
import { addingModel, answeringProgram, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { CONTROL_ENVIRONMENT, testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/**
 * A model that ends its process at the first request with a value other than zero, as the kernel's OOM killer would.
 * Triton never finishes unloading such a model.
 */
const DIES = `import os\n${answeringProgram('x', 'y', 'os._exit(1) if x.any() else x')}`;

test('rollback from a model whose process died activates the previous release and reports the model', async () => {
  const location = { bucket: 'unloads-test', prefix: 'models' };
  const { endpoint } = await testS3(scratch);
  const store = await openBucket(scratch, endpoint, location.bucket);
  await ensurePlaceholder(store, location);
  const triton = await testTriton(scratch, tritonRepositoryUrl(location, endpoint));
  const repository = writeRepository(join(scratch.directory, 'repository'), addingModel('adds', { 1: 10 }));
  const bucket = publisher(store, location, repository, () => [triton.httpUrl]);
  const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
  const answer = async (model: string): Promise<number> =>
    Number((await triton.client.infer(model, [x])).outputs[0]?.data[0]);

  await bucket.publish();
  writeRepository(repository, { ...addingModel('dies', { 1: 1 }), 'dies/1/model.py': DIES });
  await bucket.publish();
  await expect(answer('dies')).rejects.toThrow('is not healthy');

  const target = ['--bucket', 's3://unloads-test/models', '--endpoint-url', endpoint, '--triton', triton.httpUrl];
  const { code, stdout, stderr } = await runCommandLine('rollback', target, {
    ...S3_ENVIRONMENT,
    ...CONTROL_ENVIRONMENT,
  });
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: expect.stringContaining(`unload dies on ${triton.httpUrl}`) as string,
  });
  expect(stdout).toMatch(/^Release \S+: removed dies, .*\. Every replica serves it: /m);
  expect(stderr).toMatch(/error: release \S+ is active, but not every removed model could be unloaded/);
  expect(stderr).toContain(`${triton.httpUrl}: dies is still loaded (UNLOADING after 30 s)`);
  expect(stderr).toContain(`-> restart the server at ${triton.httpUrl}`);
  expect(await answer('adds')).toBe(11);

  const status = () => runCommandLine('status', target, { ...S3_ENVIRONMENT, ...CONTROL_ENVIRONMENT });
  // Triton's index omits models whose files were deleted.
  expect((await status()).stdout).not.toContain('dies');
  await triton.client.unloadModel('adds');
  writeRepository(repository, addingModel('adds', { 1: 99 }));
  const command = /-> load adds as released: npm run rollback -- (.*)\n/.exec((await status()).stdout)?.[1]?.split(' ');
  expect(command?.slice(0, -1)).toEqual(target);
  expect(await runCommandLine('rollback', command ?? [], { ...S3_ENVIRONMENT, ...CONTROL_ENVIRONMENT })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Nothing to publish') as string,
  });
  expect(await answer('adds')).toBe(11);
  writeRepository(repository, addingModel('adds', { 1: 10 }));

  // The model can be repaired without restarting the server.
  writeRepository(repository, addingModel('dies', { 2: 2 }));
  await bucket.publish();
  expect(await answer('dies')).toBe(3);
});
