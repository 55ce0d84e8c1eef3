import type { Mutant } from './run-simulation';

const agent = 'src/agent/agent.ts';
const desk = 'src/agent/trial-desk.ts';
const control = 'src/publish/head-file.ts';
const trials = 'src/publish/trials.ts';

/**
 * Each removes one guard of the protocol (test/proof/Publish.tla and Switch.tla) from the code, and the simulation finds it
 * within 2,500 schedules. The first ones are found soonest.
 */
export const MUTANTS: Record<string, Mutant> = {
  'versions are not checked against the manifest': {
    file: 'src/agent/content-store.ts',
    replace: [['if (checksum !== file.checksum)', 'if (false as boolean)']],
  },
  'a trial does not expire': {
    file: desk,
    replace: [['if (this.current?.lease.leftMs === 0)', 'if (false as boolean)']],
  },
  'a publisher that fails does not end its trials': {
    file: trials,
    replace: [
      ['async end(): Promise<void> {', 'async end(): Promise<void> {\n    if (true as boolean) return this.stop();'],
    ],
  },
  'only the first pod is asked': {
    file: trials,
    replace: [['const next = due.filter(', 'const next = due.slice(0, 1).filter(']],
  },
  'head.json is replaced without a condition': {
    file: control,
    replace: [['encodeHead(head), condition)', 'encodeHead(head), condition && undefined)']],
  },
  'a commit is not acknowledged by the pods': {
    file: trials,
    replace: [
      [
        'async untilAcknowledged(generation: number): Promise<void> {',
        'async untilAcknowledged(generation: number): Promise<void> {\n    if (true as boolean) return;',
      ],
    ],
  },
  'a label file of a refused release counts as loaded': {
    file: 'src/agent/model-repository.ts',
    replace: [['...(isSure ? [] : present)', '...present']],
  },
  'files in folders have no times': {
    file: 'src/agent/model-repository.ts',
    replace: [
      ['if (!stat.isDirectory()) return own;', 'if (!stat.isDirectory() || /[/][0-9]+$/.test(path)) return own;'],
    ],
  },
  'a request for head.json without an answer is a failure': {
    file: control,
    replace: [['return await this.settle(base, next, error);', 'throw new UserError((error as Error).message);']],
  },
  'a failed commit is not fenced': {
    file: control,
    replace: [['await this.put({ ...base.head, writer', 'if (false as boolean) await this.put({ ...base.head, writer']],
  },
  'a fence writes the same bytes': {
    file: control,
    replace: [
      [
        'await this.put({ ...base.head, writer: next.writer, generation: base.generation + 1 }, base.condition);',
        'await this.put(base.head, base.condition);',
      ],
    ],
  },
  'a second trial takes the place of the first': {
    file: desk,
    replace: [['if (this.current === undefined) return;', 'if (Date.now() > 0) return;']],
  },
  'a trial may be built on an older head': {
    file: desk,
    replace: [['if (generation > base) {', 'if (false as boolean) {']],
  },
  'a late request may begin a trial': {
    file: desk,
    replace: [['if (tag !== this.tag || performance.now() - Number(given) > TAG_MS)', 'if (tag === undefined)']],
  },
  'a renewal begins an ended trial again': {
    file: desk,
    replace: [
      [
        'const trial = this.find(id, secret);',
        'const trial = this.find(id, secret) ?? (this.former?.id === id ? (this.current = this.former) : undefined);',
      ],
      [
        '    this.current = undefined;\n    const { id',
        '    this.former = current;\n    this.current = undefined;\n    const { id',
      ],
      ['current: Trial | undefined;', 'current: Trial | undefined;\n  private former: Trial | undefined;'],
    ],
  },
};

/** More guards whose removal the comparison with the specification finds soon (test/proof/trace.test.ts). */
export const SEEN_MUTANTS: Record<string, Mutant> = {
  'the release of a trial becomes home': {
    file: agent,
    replace: [['if (this.head?.release === release.id) this.setHome', 'this.setHome']],
  },
  'a release that is served does not become home with its head': {
    file: agent,
    replace: [['if (this.serving.isWhole && this.serving.release?.id === release) this.setHome(release);', '']],
  },
  'only the first head.json is read': {
    file: agent,
    replace: [
      ['if (before !== undefined && generation <= before.generation) return;', 'if (before !== undefined) return;'],
    ],
  },
  'the state tag stays the same': {
    file: desk,
    replace: [['    this.tag = newTag();\n    this.options', '    this.options']],
  },
  'all pods are asked at the same time': {
    file: trials,
    replace: [['next.slice(0, isFirst ? 1 : atATime(due.length))', 'next']],
  },
  'a pod that still loads counts as served': {
    file: trials,
    replace: [[" && trial.phase === 'served' && release === wanted", '']],
  },
  'a failure after the commit is like one before it': {
    file: 'src/publish/make-release.ts',
    replace: [['if (isCommitted) throw isCurrentBut(id, error, signal);', '']],
  },
};
