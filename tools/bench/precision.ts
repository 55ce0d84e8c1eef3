import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { tracingPath } from '../../src/trace/trace';
import { print } from './compare';

interface Measurement {
  model: string;
  way: string;
  device: string;
  difference?: number;
  largest?: number;
  milliseconds?: number;
  /** Reason why the model could not be measured. */
  error?: string;
}

/** Measures the error against float64 and the time of each model in each precision, on the GPU if there is one. */
export async function benchPrecision(repetitions: number, models: readonly string[] | undefined): Promise<object> {
  const progress = new Progress();
  const { python } = await progress.run('Python environment', (step) => ensurePython(step));
  const args = ['-m', 'tracing.precision_bench', '--repo', paths.modelRepository, '--repetitions', `${repetitions}`];
  if (models !== undefined) args.push('--models', models.join(','));
  const { stdout } = await exec(python, args, {
    env: { ...process.env, PYTHONPATH: tracingPath() },
    onStderrLine: (line) => process.stderr.write(`${line}\n`),
  });
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
  const rows = lines.map((line) => JSON.parse(line) as Measurement);
  print(
    `precision, on ${rows[0]?.device ?? 'nothing'}`,
    ['model', 'way', 'error against float64', 'largest value', 'ms'],
    rows.map(({ model, way, difference, largest, milliseconds, error }) =>
      error === undefined
        ? [model, way, digits(difference), digits(largest), milliseconds?.toFixed(1) ?? '-']
        : [model, way, error, '-', '-'],
    ),
  );
  return { repetitions, rows };
}

const digits = (value: number | undefined): string => value?.toPrecision(3) ?? '-';
