import { EXIT, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { Progress } from '../src/cli/progress';
import { UsageError, UserError } from '../src/core/errors';
import { formatDuration } from '../src/core/format';
import { paths } from '../src/core/paths';
import { compileProgram, exportedPrograms } from '../src/local/compiled';
import { ensurePython } from '../src/local/install/python';
import { readRepository } from '../src/model';

const FLAGS = {
  here: { help: 'compile for the processor of this machine' },
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository' },
  models: { value: 'A,B', help: 'compile only these models' },
  exclude: { value: 'A,B', help: 'compile all models except these' },
} as const;

const LINE = {
  name: 'npm run build',
  about:
    'Compiles the programs of models with platform torch_aoti with AOTInductor, and compares them with their golden requests. npm run local then serves what was compiled.',
  flags: FLAGS,
  notes: `Examples:
  npm run build -- --here
  npm run build -- --here --repo ../models --models resnet,bert

Needs a C++ compiler, such as g++. What was compiled is in the cache, for each program, processor and PyTorch.

Exit codes: 0 done, 1 a program cannot be compiled, 2 wrong command line.`,
};

export const main = command(LINE, async ({ here, repo, ...flags }) => {
  if (!here) throw new UsageError('give --here', { hint: 'the programs are compiled for this machine' });
  const { models, problems, problemsOf } = await readRepository(repo, parseSelection(flags));
  const programs = models.flatMap(exportedPrograms);
  // Models of other platforms may have problems.
  const faults = models.length === 0 ? problems : programs.flatMap(({ model }) => problemsOf.get(model.name) ?? []);
  if (faults.length > 0) throw new UserError('no program was compiled', { problems: faults });
  if (programs.length === 0) process.stdout.write('Nothing to compile: no traced model has platform torch_aoti\n');
  const progress = new Progress();
  const { python } = await progress.run('Python environment', (step) => ensurePython(step));
  for (const program of programs) {
    const name = `${program.model.name} ${program.version}`;
    const result = await progress.run(`compile ${name}`, () => compileProgram(program, python));
    const how =
      result === undefined
        ? 'up to date'
        : `compiled in ${formatDuration(result.seconds * 1000)}; golden requests differ by at most ${result.difference.toPrecision(2)}`;
    process.stdout.write(`${name}: ${how}\n`);
  }
  return EXIT.ok;
});
