import { readFileSync } from 'node:fs';
import { slug, type Arena } from './arena';
import { OURS, type Contestant } from './contestants';
import type { Course, Measured } from './course';
import { changeLabels, labelsFile, modelName, SMALL_FILES, type RepositoryShape } from './data';
import type { RowResult } from './goals';
import type { Sample } from './measure';
import { countRequests } from './requests';
import { rounds } from '../rounds';

/** An entry of the row `changed`. */
export const NOTHING_CHANGED = `${OURS}, nothing changed`;

/** 10,000 objects in total, which fill exactly 10 pages of a listing. */
function manyFiles({ reduction }: Course): RepositoryShape {
  const models = 10;
  return { models, parts: 10_000 / reduction - models * SMALL_FILES, partBytes: 1024 };
}

const byContent = ({ name }: Contestant): boolean => name.endsWith('by content');

export function coldThousand(course: Course): Promise<Measured> {
  const shape = { models: 10, parts: 1000 / course.reduction, partBytes: 64 * 1024 };
  return cold('cold-1000', course, course.sources.get('thousand', shape));
}

export function coldTenThousand(course: Course): Promise<Measured> {
  return cold('cold-10000', course, course.sources.get('many', manyFiles(course)));
}

async function cold(name: string, { arena, repetitions, onRun }: Course, source: string): Promise<Measured> {
  const entries = new Map(
    // With an empty prefix there is nothing to compare, so this setting makes no difference.
    arena.contestants
      .filter((contestant) => !byContent(contestant))
      .map((contestant) => [
        contestant.name,
        async (round: number): Promise<Sample> => {
          const prefix = `${name}-${slug(contestant.name)}-${round}`;
          const sample = await arena.sync(contestant, source, prefix);
          arena.requireComplete(contestant, source, prefix);
          arena.remove(prefix);
          return sample;
        },
      ]),
  );
  return { samples: await rounds(entries, repetitions, onRun) };
}

export async function large(course: Course): Promise<Measured> {
  const { arena, sources, reduction } = course;
  const shape = { models: 4, parts: 4, partBytes: Math.ceil(500e6 / reduction) };
  const result = await cold('large', course, sources.get('large', shape));
  const quarter = sources.get('quarter', { ...shape, partBytes: Math.ceil(shape.partBytes / 4) });
  const { peakBytes } = await arena.sync(arena.ours, quarter, 'quarter');
  arena.remove('quarter');
  return { ...result, figures: { 'peak bytes with quarter files': peakBytes } };
}

export async function noOp(course: Course): Promise<Measured> {
  const { sources, repetitions, onRun } = course;
  const source = sources.get('many', manyFiles(course));
  const prepare = async (arena: Arena): Promise<Map<string, () => Promise<Sample>>> => {
    const entries = new Map<string, () => Promise<Sample>>();
    for (const contestant of arena.contestants) {
      const prefix = `no-op-${slug(contestant.name)}`;
      await arena.sync(contestant, source, prefix);
      entries.set(contestant.name, () => arena.sync(contestant, source, prefix));
    }
    return entries;
  };
  const samples = await rounds(await prepare(course.arena), repetitions, onRun);
  const counting = await course.counting();
  const requests: RowResult['requests'] = {};
  for (const [name, run] of await prepare(counting.arena)) {
    requests[name] = await countRequests(counting.accessLog, run);
  }
  return { samples, requests };
}

export async function changed(course: Course): Promise<Measured> {
  const { arena, sources, repetitions, onRun } = course;
  const still = sources.get('many', manyFiles(course));
  const moving = sources.get('many-changing', manyFiles(course));
  const model = modelName(0);
  let change = 0;
  const noticed: Record<string, boolean> = {};
  const entries = new Map<string, () => Promise<Sample>>();
  for (const contestant of arena.contestants) {
    const prefix = `changed-${slug(contestant.name)}`;
    await arena.sync(contestant, moving, prefix);
    noticed[contestant.name] = true;
    entries.set(contestant.name, async () => {
      changeLabels(moving, model, (change += 1));
      const sample = await arena.sync(contestant, moving, prefix);
      const there = readFileSync(labelsFile(arena.objects(prefix), model), 'utf8');
      if (there !== readFileSync(labelsFile(moving, model), 'utf8')) noticed[contestant.name] = false;
      return sample;
    });
  }
  await arena.sync(arena.ours, still, 'unchanged');
  entries.set(NOTHING_CHANGED, () => arena.sync(arena.ours, still, 'unchanged'));
  const samples = await rounds(entries, repetitions, onRun);
  return { samples, noticed, ...(await countChanged(course, moving, model, change + 1)) };
}

/** Counts the requests for one changed file. */
async function countChanged(
  course: Course,
  source: string,
  model: string,
  change: number,
): Promise<Pick<RowResult, 'requests' | 'figures'>> {
  const { arena, accessLog } = await course.counting();
  await arena.sync(arena.ours, source, 'changed');
  changeLabels(source, model, change);
  const before = readFileSync(accessLog).length;
  const requests = { [OURS]: await countRequests(accessLog, () => arena.sync(arena.ours, source, 'changed')) };
  const written = readFileSync(accessLog).subarray(before).toString('utf8');
  // Counts only objects of the repository, not releases beside it. config.pbtxt is excluded, because writing it
  // activates the new files.
  const puts = written.split('\n').filter((line) => line.includes(' s3_PutObject changed/'));
  const files = puts.filter((line) => !line.includes('/config.pbtxt ')).length;
  return { requests, figures: { 'files written': files } };
}
