import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { EXIT, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { withInterrupts } from '../src/cli/interrupts';
import { Progress } from '../src/cli/progress';
import { withTarget } from '../src/commands/target';
import { UsageError, UserError } from '../src/core/errors';
import { formatDuration } from '../src/core/format';
import { paths } from '../src/core/paths';
import { compileProgram, isForHere, readAnswer, type Compiling } from '../src/local/compiled';
import { ensurePython } from '../src/local/install/python';
import { exportedPrograms, readRepository } from '../src/model';
import type { ExportedProgram } from '../src/model/programs';
import { findBuild, storeBuild } from '../src/publish/builds';

const FLAGS = {
  stack: { value: 'NAME', help: 'compile on a node of this stack, for its replicas' },
  'stack-dir': { value: 'DIR', help: 'folder of the Pulumi program (default: the project)' },
  here: { help: 'compile for the processor of this machine' },
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository' },
  models: { value: 'A,B', help: 'compile only these models' },
  exclude: { value: 'A,B', help: 'compile all models except these' },
} as const;

const LINE = {
  name: 'npm run build',
  about:
    'Compiles traced models with platform torch_aoti (AOTInductor) or tensorrt_plan (TensorRT), and compares them with their golden requests. sync-models then publishes what was compiled for the stack; npm run local serves what was compiled here.',
  flags: FLAGS,
  notes: `Examples:
  npm run build -- --stack staging
  npm run build -- --here --repo ../models --models resnet,bert

With --stack, a Job compiles in NVIDIA's PyTorch image of the release of Triton, on a GPU like those of the replicas; the
result is in the bucket, for each program, release and kind of GPU. --here needs a C++ compiler, such as g++; the result is
in the cache of this machine, for each program, processor and PyTorch. What is there already is not compiled again.

Exit codes: 0 done, 1 a program cannot be compiled, 2 wrong command line, 130 interrupted.`,
};

/** @returns undefined if it was compiled before */
type Compile = (program: ExportedProgram) => Promise<Compiling | undefined>;

export const main = command(LINE, async ({ here, stack, repo, 'stack-dir': directory, ...flags }) => {
  if (here === (stack !== undefined)) throw new UsageError('give either --stack or --here', { hint: '--stack NAME' });
  const { models, problems, problemsOf } = await readRepository(repo, parseSelection(flags));
  const programs = models.flatMap(exportedPrograms).filter((program) => !here || isForHere(program));
  // Models of other platforms may have problems.
  const faults = models.length === 0 ? problems : programs.flatMap(({ model }) => problemsOf.get(model.name) ?? []);
  if (faults.length > 0) throw new UserError('no program was compiled', { problems: faults });
  if (programs.length === 0)
    process.stdout.write(
      `Nothing to compile: no traced model has platform torch_aoti${here ? '' : ' or tensorrt_plan'}\n`,
    );
  const progress = new Progress();
  const compileAll = async (compile: Compile): Promise<void> => {
    for (const program of programs) {
      const name = `${program.model.name} ${program.version}`;
      const result = await compile(program);
      const how =
        result === undefined
          ? 'up to date'
          : `compiled in ${formatDuration(result.seconds * 1000)}; golden requests differ by at most ${result.difference.toPrecision(2)}`;
      process.stdout.write(`${name}: ${how}\n`);
    }
  };
  if (programs.length === 0) return EXIT.ok;
  if (stack === undefined) {
    const { python } = await progress.run('Python environment', (step) => ensurePython(step));
    await compileAll((program) => progress.run(`compile ${program.model.name}`, () => compileProgram(program, python)));
  } else {
    return withInterrupts(async (signal) => {
      try {
        await compileInStack({ stack, 'stack-dir': directory }, { progress, compileAll, signal });
        return EXIT.ok;
      } catch (error) {
        if (signal.aborted) return EXIT.interrupted;
        throw error;
      }
    });
  }
  return EXIT.ok;
});

async function compileInStack(
  flags: { stack: string; 'stack-dir': string | undefined },
  {
    progress,
    compileAll,
    signal,
  }: { progress: Progress; compileAll: (compile: Compile) => Promise<void>; signal: AbortSignal },
): Promise<void> {
  // Loaded on demand, because the client of Kubernetes is slow to load.
  const { Builder } = await import('../src/publish/cluster/builder');
  await withTarget(flags, async (bucket) => {
    const { kubeconfig = '', namespace = '', builder: output } = bucket.cluster ?? {};
    if (output === undefined) {
      throw new UserError(`stack ${flags.stack} does not say how models are compiled for its replicas`, {
        hint: "set gpuCapabilities, if its GPUs are not those of gpuNodePools, and use NVIDIA's image or a copy named tritonserver:YY.MM; then run pulumi up",
      });
    }
    const { target } = output;
    const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-build-'));
    let builder: Awaited<ReturnType<typeof Builder.start>> | undefined;
    try {
      await compileAll(async (program) => {
        if ((await findBuild(bucket, program, target)) !== undefined) return undefined;
        const { name } = program.model;
        return progress.run(`compile ${name} for ${target}`, async (step) => {
          builder ??= await Builder.start({
            ...{ kubeconfig, namespace, builder: output, signal },
            program: readFileSync(join(paths.python, 'tracing', 'build_server.py'), 'utf8'),
            onStage: (text) => step.update(text),
          });
          const file = join(scratch, name);
          const line = await builder.run(toCommand(program, target, file));
          const result = readAnswer(name, line);
          await storeBuild(bucket, program, target, { file, bytes: statSync(file).size, ...result });
          return result;
        });
      });
    } finally {
      rmSync(scratch, { recursive: true, force: true });
      await builder?.close();
    }
  });
}

/** Sends the program, its golden requests, and the code that compiles it. */
function toCommand({ model, version, key, artifact, dataFiles }: ExportedProgram, target: string, to: string) {
  const [, ...processors] = target.split(' ');
  const golden = join('golden', String(version));
  const isGolden = (name: string): boolean => name.startsWith('traced-');
  const optional = [join(String(version), 'plan.json')].filter((name) => existsSync(join(model.directory, name)));
  const inModel = [key, ...dataFiles, 'model.yaml', ...optional];
  const files = {
    ...list(join(paths.python, 'tracing'), (name) => name.endsWith('.py'), 'tracing'),
    'with_parent.py': join(paths.python, 'with_parent.py'),
    ...list(join(model.directory, golden), isGolden, `${model.name}/${golden}`),
    ...Object.fromEntries(inModel.map((name) => [`${model.name}/${name}`, join(model.directory, name)])),
  };
  const module = key === artifact ? 'tracing.compiled' : 'tracing.plan';
  // AOTInductor wants the extension.
  const made = `compiled${extname(artifact)}`;
  const capabilities = processors.filter((processor) => processor !== 'cpu');
  const command = [module, model.name, String(version), `${model.name}/${key}`, made, ...capabilities];
  return { files, command, result: { from: made, to } };
}

const list = (folder: string, wanted: (name: string) => boolean, to: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder)
      .filter(wanted)
      .map((name) => [`${to}/${name}`, join(folder, name)]),
  );
