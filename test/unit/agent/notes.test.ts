import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NoteFile, type Notes } from '../../../src/agent/notes';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'notes-'));
  path = join(directory, 'notes.json');
});
afterEach(() => rmSync(directory, { recursive: true }));

const LOCATION = 's3://bucket/models';
const NOTES: Notes = {
  location: LOCATION,
  home: 'a',
  asked: { m: 'golden' },
  head: { generation: 3, release: 'a', manifestSha256: 'f' },
  loads: { m: { sure: true, units: { 1: 'content' }, config: 'text' } },
};

test('notes are read as they were saved', () => {
  const file = new NoteFile(path, LOCATION);
  Object.assign(file.notes, NOTES);
  file.save();
  expect(new NoteFile(path, LOCATION)).toMatchObject({ notes: NOTES, problem: undefined });
});

test.each([
  ['another repository', NOTES, { loads: NOTES.loads }],
  ['an agent that did not note its repository', { ...NOTES, location: undefined }, NOTES],
])('of the notes about %s, those are kept that hold', (_, notes, kept) => {
  writeFileSync(path, JSON.stringify(notes));
  const location = kept === NOTES ? LOCATION : 's3://other/models';
  const nothing = { home: undefined, asked: {}, head: undefined };
  expect(new NoteFile(path, location).notes).toEqual({ ...nothing, ...kept, location });
});

test.each<[string, string]>([
  ['an empty file', ''],
  ['a file that was cut', JSON.stringify(NOTES).slice(0, 50)],
  ['another JSON value', '[]'],
  ['a field of another type', JSON.stringify({ ...NOTES, home: 7 })],
  ['a head without a generation', JSON.stringify({ ...NOTES, head: { release: 'a', manifestSha256: 'f' } })],
  ['a load without units', JSON.stringify({ ...NOTES, loads: { m: { sure: true, config: '' } } })],
])('%s counts as unknown, and is replaced', (_, text) => {
  writeFileSync(path, text);
  const file = new NoteFile(path, LOCATION);
  expect(file.notes).toEqual({ location: LOCATION, home: undefined, asked: {}, head: undefined, loads: {} });
  expect(file.problem).toMatch(/^cannot read .*notes\.json: .*; every model is loaded again$/);
  file.save();
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ location: LOCATION, asked: {}, loads: {} });
});
