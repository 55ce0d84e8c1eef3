import { EXIT, parseFlags, parseInteger, parseList, runCommand } from './lib/cli';
import { UsageError } from './lib/errors';
import { formatBytes, formatDuration, formatTable } from './lib/format';
import { paths } from './lib/paths';
import { Progress } from './lib/progress';
import { formatLocation, parseLocation } from './lib/publish/location';
import { isChanged, type Plan } from './lib/publish/plan';
import { publish, type Published } from './lib/publish/publish';
import { S3Store } from './lib/publish/s3-store';

const HELP = `Publishes a model repository to S3 and gets running Triton servers to serve it.

  npm run sync-models -- --bucket s3://NAME/PREFIX [options]

  --bucket s3://NAME/PREFIX  where the repository is in S3
  --endpoint-url URL         an S3 API other than AWS's
  --region NAME              region of the bucket (default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1)
  --repo DIR                 model repository to publish (default: model-repo)
  --models A,B               only these; what an ensemble is made of comes along
  --exclude A,B              all but these
  --triton URL               a running server, http://HOST:PORT; may be given again; one is told after the other
  --load-timeout SECONDS     for one model to become READY on one server (default: 600)
  --dry-run                  show what would be done, write nothing
  --json                     result as JSON on stdout
  --help

Exit codes: 0 done, 1 failed, 2 wrong command line. Credentials come from where the AWS SDK looks for them.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => syncModels(argv));
}

async function syncModels(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    bucket: { type: 'string' },
    'endpoint-url': { type: 'string' },
    region: { type: 'string' },
    repo: { type: 'string', default: paths.modelRepository },
    models: { type: 'string' },
    exclude: { type: 'string' },
    triton: { type: 'string', multiple: true, default: [] },
    'load-timeout': { type: 'string', default: '600' },
    'dry-run': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  if (flags.bucket === undefined) {
    throw new UsageError('--bucket is missing', { hint: 'npm run sync-models -- --bucket s3://NAME/PREFIX' });
  }
  const location = parseLocation(flags.bucket);
  const endpointUrl = parseHttpUrl('endpoint-url', flags['endpoint-url']);
  const replicas = flags.triton.map((url) => parseHttpUrl('triton', url) as string);
  const models = parseList('models', flags.models);
  const exclude = parseList('exclude', flags.exclude);
  const loadTimeoutMs = parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000;

  const progress = new Progress();
  const store = new S3Store({
    bucket: location.bucket,
    ...(flags.region === undefined ? {} : { region: flags.region }),
    ...(endpointUrl === undefined ? {} : { endpointUrl }),
  });
  const started = Date.now();
  try {
    const published = await progress.run(`publish ${flags.repo} to ${formatLocation(location)}`, (step) => {
      let bytes = 0;
      return publish({
        repository: flags.repo,
        ...(models === undefined ? {} : { models }),
        ...(exclude === undefined ? {} : { exclude }),
        store,
        location,
        replicas,
        loadTimeoutMs,
        dryRun: flags['dry-run'],
        onPlan: (plan) => {
          if (!flags.json) process.stdout.write(`${describePlan(plan)}\n`);
        },
        onUploaded: (key, size) => step.update(`${formatBytes((bytes += size))} sent, last ${key}`),
        onReady: (replica, model, ms) => progress.line(`     ${replica}: ${model} READY (${formatDuration(ms)})`),
      });
    });
    report(published, flags.json, flags['dry-run'], Date.now() - started);
    return EXIT.ok;
  } finally {
    store.close();
  }
}

function describePlan(plan: Plan): string {
  const rows = plan.models.map((planned) => {
    const all = [...planned.objects, planned.config];
    const written = all.filter(({ action }) => action === 'upload' || action === 'replace');
    return [
      planned.model.name,
      planned.model.served.join(', '),
      isChanged(planned) ? 'publish' : 'unchanged',
      String(written.length),
      formatBytes(written.reduce((sum, { object }) => sum + object.bytes, 0)),
      String(all.length - written.length),
    ];
  });
  return formatTable(['model', 'serves versions', 'action', 'objects to write', 'bytes', 'objects kept'], rows);
}

function report(published: Published, json: boolean, dryRun: boolean, milliseconds: number): void {
  const { plan, release, added } = published;
  const changed = plan.models.filter(isChanged).map(({ model }) => model.name);
  if (json) {
    const objects = plan.models.flatMap((planned) => [...planned.objects, planned.config]);
    const written = objects
      .filter(({ action }) => action !== 'keep')
      .map(({ object: { key, bytes }, action }) => ({ key, bytes, action }));
    const result = {
      dryRun,
      release: release?.id ?? null,
      changed,
      added,
      written,
      kept: objects.length - written.length,
      milliseconds,
    };
    process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
    return;
  }
  if (added.length > 0) process.stdout.write(`Added, because an ensemble needs them: ${added.join(', ')}\n`);
  if (dryRun) process.stdout.write('Dry run: nothing was written.\n');
  else if (changed.length === 0)
    process.stdout.write(`Nothing to publish: the repository is at release ${release?.id}.\n`);
  else process.stdout.write(`Published ${changed.join(', ')} as release ${release?.id}.\n`);
}

function parseHttpUrl(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--${flag} ${text}: not an address`, { hint: 'write it as http://HOST:PORT' });
  }
  return text.replace(/\/+$/, '');
}
