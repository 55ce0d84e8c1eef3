import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { fixedReplicas } from '../../src/cluster/source';
import { formatDuration } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { ensurePython } from '../../src/install/python';
import { ensureSeaweedfs } from '../../src/install/seaweedfs';
import { ensureTriton } from '../../src/install/triton';
import { freePorts } from '../../src/local/process/ports';
import { selectModels } from '../../src/local/selection';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server } from '../../src/local/s3-server';
import { freeTritonPorts, startTriton } from '../../src/local/triton-server';
import { readValidModels } from '../../src/local/valid-models';
import { tritonRepositoryUrl } from '../../src/release/location';
import { publish } from '../../src/publish/publish';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { S3Store } from '../../src/s3/store';
import { traceModels } from '../../src/trace/trace';
import { median, medianRatio, print, rounds } from './compare';
import { inScratch } from './scratch';

const TIMEOUT_MS = 900_000;

/**
 * Compares the publishing of all models of this repository with and without golden requests. Each publish is the first
 * one: to an empty prefix, and to a server that has loaded nothing.
 */
export async function benchGolden(repetitions: number): Promise<object> {
  const progress = new Progress();
  return inScratch(async (directory, undo) => {
    const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    const { python } = environment;
    const [installation, weed] = await Promise.all([ensureTriton(environment), ensureSeaweedfs()]);
    const { served } = selectModels(await readValidModels(paths.modelRepository, { artifacts: false }));
    const models = served.map(({ name }) => name);
    await traceModels({ python, repository: paths.modelRepository, models, weights: [], onEvent: () => undefined });
    const [port = 0] = await freePorts(1);
    const logFile = join(directory, 's3.log');
    const credentials = LOCAL_CREDENTIALS;
    const s3 = await startS3Server({ weed, python, directory: join(directory, 's3'), logFile, port, credentials });
    undo.defer(() => s3.stop());
    const store = new S3Store({ bucket: 'bench', endpointUrl: s3.endpoint, region: LOCAL_REGION, credentials });
    undo.defer(() => store.close());
    await store.ensureBucket();

    /** Returns the seconds of one publish. */
    const run = async (name: string, round: number): Promise<number> => {
      const location = { bucket: 'bench', prefix: `${name}-${round}` };
      const folder = join(directory, location.prefix);
      mkdirSync(folder);
      await ensurePlaceholder(store, location);
      const server = await startTriton({
        installation,
        environment,
        repository: tritonRepositoryUrl(location, s3.endpoint),
        directory: folder,
        ports: await freeTritonPorts(),
        credentials: { ...credentials, region: LOCAL_REGION },
        load: [],
        startTimeoutMs: TIMEOUT_MS,
      });
      const replicas = fixedReplicas([server.control]);
      try {
        const started = performance.now();
        await publish({
          store,
          location,
          repository: paths.modelRepository,
          replicas,
          models,
          noAsk: name === WITHOUT,
          loadTimeoutMs: TIMEOUT_MS,
          lockTimeoutMs: TIMEOUT_MS,
        });
        return (performance.now() - started) / 1000;
      } finally {
        await replicas.close();
        await server.stop();
        rmSync(folder, { recursive: true, force: true });
      }
    };
    const ways = new Map([WITHOUT, WITH].map((name) => [name, (round: number) => run(name, round)] as const));
    const results = await progress.run('publish all models', (step) =>
      rounds(ways, repetitions, (round, name) => step.update(`round ${round}: ${name}`)),
    );
    const [without = [], with_ = []] = [results.get(WITHOUT), results.get(WITH)];
    const ratio = medianRatio(with_, without);
    print(
      'first publish of all models',
      ['golden requests', 'median', 'ratio'],
      [
        [WITHOUT, formatDuration(median(without) * 1000), '1.00'],
        [WITH, formatDuration(median(with_) * 1000), ratio.toFixed(3)],
      ],
    );
    return { repetitions, seconds: Object.fromEntries(results), ratio };
  });
}

const WITHOUT = 'without';
const WITH = 'with';
