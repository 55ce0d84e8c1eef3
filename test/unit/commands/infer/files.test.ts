import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readNpy, writeNpy } from '../../../../src/model/media/npy';
import { readSource } from '../../../../src/commands/infer/input-files';
import { toTensor } from '../../../../src/triton/tensor-from-json';
import type { DataType } from '../../../../src/triton/tensor';
import { Scratch } from '../../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());
const path = (name: string): string => join(scratch.directory, name);

describe('readNpy and writeNpy', () => {
  const TYPES: DataType[] = [
    ...(['BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64'] as const),
    ...(['FP16', 'FP32', 'FP64'] as const),
  ];

  it.each(TYPES)('restore a tensor of %s', (datatype) => {
    for (const nested of [
      1,
      [1, 0],
      [
        [1, 0, 1],
        [0, 1, 1],
      ],
      [[[]]],
    ]) {
      const tensor = toTensor('x', datatype, nested);
      expect(readNpy('x', writeNpy(tensor))).toEqual(tensor);
    }
  });

  /** What numpy.save(file, numpy.array([[1, 2], [3, 4]], dtype)) writes, in both versions of its format. */
  const saved = (version: 1 | 2, descr: string, order: 'True' | 'False', data: Buffer, shape = [2, 2]): Buffer => {
    const header = Buffer.from(
      `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${shape.join(', ')},), }          \n`,
    );
    const length = version === 1 ? Buffer.from([header.length, 0]) : Buffer.from([header.length, 0, 0, 0]);
    return Buffer.concat([Buffer.from([0x93]), Buffer.from('NUMPY'), Buffer.from([version, 0]), length, header, data]);
  };
  const DATA = Buffer.from(Int16Array.of(1, 2, 3, 4).buffer);

  it.each([1, 2] as const)('read version %d of the format', (version) => {
    expect(readNpy('x', saved(version, '<i2', 'False', DATA))).toEqual(
      toTensor('x', 'INT16', [
        [1, 2],
        [3, 4],
      ]),
    );
  });

  it('write BF16 as float32, and align the data to 64 bytes', () => {
    const bytes = writeNpy(toTensor('x', 'BF16', [1.5, 2]));
    expect(readNpy('x', bytes)).toEqual(toTensor('x', 'FP32', [1.5, 2]));
    expect((bytes.length - 8) % 64).toBe(0);
  });

  it.each<[string, () => unknown, string]>([
    ['a file of another format', () => readNpy('f', Buffer.from('PK')), 'f is not a .npy file'],
    ['strings', () => readNpy('f', saved(1, '<U3', 'False', DATA)), 'f has type <U3; allowed: |b1'],
    ['an array in Fortran order', () => readNpy('f', saved(1, '<i2', 'True', DATA)), 'f is in Fortran order'],
    ['big endian numbers', () => readNpy('f', saved(1, '>i2', 'False', DATA)), 'f has type >i2; allowed: |b1'],
    ['a truncated file', () => readNpy('f', saved(1, '<i2', 'False', DATA.subarray(2))), "tensor 'f': 6 bytes"],
    [
      'a file without its header',
      () => readNpy('f', writeNpy(toTensor('x', 'FP32', [1])).subarray(0, 7)),
      'f is truncated',
    ],
    [
      'a header without its end',
      () => readNpy('f', writeNpy(toTensor('x', 'FP32', [1])).subarray(0, 40)),
      'f is truncated',
    ],
    ['BYTES to write', () => writeNpy(toTensor('x', 'BYTES', ['a'])), 'output x is BYTES, which .npy does not support'],
  ])('reject %s', (_, act, message) => {
    expect(act).toThrow(message);
  });
});

describe('readSource', () => {
  beforeAll(() => {
    writeFileSync(path('a.json'), '[1, 2]');
    writeFileSync(path('broken.json'), '[1');
    writeFileSync(path('inputs.json'), '{"inputs": [[1]]}');
    writeFileSync(path('long.json'), '{"x": [9007199254740993]}');
    writeFileSync(path('note.txt'), 'from a file\n');
    writeFileSync(path('json.txt'), '["a"]');
    writeFileSync(path('photo.JPG'), '');
    writeFileSync(path('data.bin'), '');
    writeFileSync(path('a.npy'), writeNpy(toTensor('x', 'FP32', [1])));
  });

  it.each([
    ['two sentences', { name: undefined, kind: 'text', text: 'two sentences' }],
    ['a=b', { name: undefined, kind: 'text', text: 'a=b' }],
    ['See report.txt', { name: undefined, kind: 'text', text: 'See report.txt' }],
    ['x=a=b', { name: 'x', kind: 'text', text: 'a=b' }],
    ['x=[[1, 2]]', { name: 'x', kind: 'json', value: [[1, 2]] }],
    ['x=7', { name: 'x', kind: 'json', value: 7 }],
    ['[1, 2]', { name: undefined, kind: 'json', value: [1, 2] }],
    ['{"inputs": [[1]]}', { name: undefined, kind: 'json', value: { inputs: [[1]] } }],
    ['7', { name: undefined, kind: 'text', text: '7' }],
    ['x=9007199254740993', { name: 'x', kind: 'json', value: 9007199254740993n }],
    [
      'x=[[-9223372036854775808, 9007199254740991, 0.12345678901234567890, 1234567890123456e4, "a\\"12345678901234567890"]]',
      {
        name: 'x',
        kind: 'json',
        value: [[-(2n ** 63n), 9007199254740991, 0.12345678901234568, 1234567890123456e4, 'a"12345678901234567890']],
      },
    ],
    ['[18446744073709551615]', { name: undefined, kind: 'json', value: [2n ** 64n - 1n] }],
    ['long.json', { name: undefined, kind: 'json', value: { x: [2n ** 53n + 1n] } }],
    ['[laughs] hello', { name: undefined, kind: 'text', text: '[laughs] hello' }],
    ['json.txt', { name: undefined, kind: 'text', text: '["a"]' }],
    ['inputs.json', { name: undefined, kind: 'json', value: { inputs: [[1]] } }],
    ['a.json', { name: undefined, kind: 'json', value: [1, 2] }],
    ['x=a.json', { name: 'x', kind: 'json', value: [1, 2] }],
    ['note.txt', { name: undefined, kind: 'text', text: 'from a file' }],
    ['photo.JPG', { name: undefined, kind: 'picture', file: 'photo.JPG' }],
    ['a.npy', { name: undefined, kind: 'array', tensor: toTensor('a.npy', 'FP32', [1]) }],
  ])('reads the argument %s', (argument, source) => {
    const here = process.cwd();
    process.chdir(scratch.directory);
    try {
      expect(readSource(argument, ['x', 'y'])).toEqual(source);
    } finally {
      process.chdir(here);
    }
  });

  it.each([
    ['of an unsupported type', 'data.bin', /data\.bin: unsupported file type; allowed: \.jpg/],
    ['that does not exist', 'missing.png', /the file .*missing\.png does not exist/],
    ['that is not JSON', 'broken.json', /broken\.json: /],
  ])('rejects a file %s', (_, name, message) => {
    expect(() => readSource(path(name), [])).toThrow(message);
  });

  it('rejects an object in place of the numbers of an input', () => {
    const says = 'the input: the value of "x" is an object';
    expect(() => readSource('{"x": {"data": [1, 2], "shape": [2]}}', [])).toThrow(says);
  });
});
