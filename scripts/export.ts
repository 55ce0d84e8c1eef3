import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { EXIT, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { withInterrupts } from '../src/cli/interrupts';
import { exportRelease } from '../src/commands/export-release';
import { withTarget, STORE_FLAGS, type TargetFlags } from '../src/commands/target';
import { formatProblem, UsageError } from '../src/core/errors';
import { exportModels } from '../src/model/export';
import { formatBytes, formatCount } from '../src/core/format';
import { readValidRepository, requirePublishable, staleTraces } from '../src/model';
import { displayPath } from '../src/model/paths';
import { paths } from '../src/core/paths';

const AGENT_FILE = join(paths.project, 'build', 'agent.cjs');

const FLAGS = {
  ...STORE_FLAGS,
  out: {
    value: 'DIR',
    default: join(paths.project, 'build', 'repository'),
    help: 'folder to write; must be new, empty or written by this command',
  },
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository to export' },
  models: { value: 'A,B', help: 'export only these models, and the models that their ensembles use' },
  exclude: { value: 'A,B', help: 'export all models except these' },
  release: {
    value: 'ID',
    help: 'export this published release instead of a folder, or a unique part of its id; current: the current one',
  },
  agent: {
    help: `export no models, but write the program that has Triton serve a bucket, for compose.yaml: ${relative(paths.project, AGENT_FILE)}`,
  },
} as const;

const LINE = {
  name: 'npm run export',
  about:
    'Writes a model repository that any Triton server can read: config.pbtxt, versions and files of each model. compose.yaml mounts this folder, and "docker build --target bundled" copies it into the image.',
  flags: FLAGS,
  notes: `--stack, --bucket and --local select the repository of --release.
Models that an earlier export wrote to the folder, and that are no longer exported, are deleted from it.

Examples:
  npm run export -- --models resnet,bert --out /srv/models
  npm run export -- --repo ../models --exclude gfpgan
  npm run export -- --release current --stack prod --out /srv/models
  npm run export -- --agent

Exit codes: 0 done, 1 failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  if (flags.agent) return exportAgent(flags);
  const out = resolve(flags.out);
  if (flags.release !== undefined) return exportPublished(flags.release, flags, out);
  const place = (['stack', 'bucket', 'local'] as const).find(
    (name) => flags[name] !== undefined && flags[name] !== false,
  );
  if (place !== undefined) {
    throw new UsageError(`--${place} is given without --release`, { hint: 'add --release ID, or --release current' });
  }
  if (`${out}${sep}`.startsWith(`${resolve(flags.repo)}${sep}`)) {
    throw new UsageError(`--out ${flags.out} is in the model repository ${flags.repo}, where every folder is a model`, {
      hint: 'choose a folder outside of the model repository',
    });
  }
  const purpose = 'exported; nothing was written';
  const { models, added } = await readValidRepository(flags.repo, parseSelection(flags), purpose);
  await requirePublishable(models);
  for (const warning of await staleTraces(models)) process.stderr.write(`warning: ${formatProblem(warning)}\n`);
  const { bytes, removed } = await exportModels(models, out);
  if (added.length > 0) process.stdout.write(`Added, because an ensemble uses them: ${added.join(', ')}\n`);
  if (removed.length > 0) process.stdout.write(`Removed: ${removed.join(', ')}\n`);
  process.stdout.write(
    `Exported ${formatCount(models.length, 'model')} (${formatBytes(bytes)}) to ${displayPath(out)}\n`,
  );
  return EXIT.ok;
});

interface ExportFlags extends Omit<TargetFlags, 'agent'> {
  models?: string;
  exclude?: string;
}

async function exportPublished(id: string, flags: ExportFlags, out: string): Promise<number> {
  const other = (['models', 'exclude'] as const).find((name) => flags[name] !== undefined);
  if (other !== undefined) {
    throw new UsageError(`--release and --${other} cannot be combined, because a release is exported as a whole`, {
      hint: 'omit one of them',
    });
  }
  const repo = flags.repo === paths.modelRepository ? undefined : flags.repo;
  return withTarget({ ...flags, agent: undefined, repo }, async (bucket) => {
    const { release, exported } = await withInterrupts((signal) => exportRelease(bucket, id, out, signal));
    const { bytes, removed } = exported;
    const count = formatCount(Object.keys(release.models).length, 'model');
    if (removed.length > 0) process.stdout.write(`Removed: ${removed.join(', ')}\n`);
    process.stdout.write(`Exported release ${release.id}, ${count} (${formatBytes(bytes)}), to ${displayPath(out)}\n`);
    return EXIT.ok;
  });
}

async function exportAgent(flags: Record<string, unknown>): Promise<number> {
  const other = (['out', 'repo', 'models', 'exclude'] as const).find(
    (name) => flags[name] !== ('default' in FLAGS[name] ? FLAGS[name].default : undefined),
  );
  if (other !== undefined) {
    throw new UsageError(`--agent and --${other} cannot be combined, because --agent exports no models`, {
      hint: 'omit one of them',
    });
  }
  // Loaded on demand, because it loads a compiler.
  const { agentProgram } = await import('../infra/triton/agent/program');
  mkdirSync(dirname(AGENT_FILE), { recursive: true });
  writeFileSync(AGENT_FILE, agentProgram()['agent.cjs']);
  process.stdout.write(`Exported the agent to ${displayPath(AGENT_FILE)}\n`);
  return EXIT.ok;
}
