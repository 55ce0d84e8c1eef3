import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { externalFiles, onnxFaults } from '../../../src/model/onnx';
import { programFaults, torchScriptFaults } from '../../../src/model/torch-files';
import { folder, program, removeFolders, torchScript, zip } from '../../support/model-files';

const DATA = join(__dirname, '..', '..', 'data', 'onnx');
const file = join(folder({}), 'model');
afterAll(removeFolders);

/** As torch.jit.save writes it: the attribute `training` of the module and of its two parts, of the same class. */
function modules(whole: boolean, first: boolean, second: boolean): Buffer {
  const flag = (value: boolean): string => (value ? '\x88' : '\x89');
  const part = (value: boolean): string => `)\x81}(h\x01${flag(value)}X\x04\0\0\0sizeK\x88ubq\x07`;
  const start = `(X\x08\0\0\0trainingq\x01${flag(whole)}X\x03\0\0\0oneq\x02(K\x01\x88tX\x06\0\0\0layersc__torch__.m\nPart\nq\x03`;
  const pickle = `\x80\x02c__torch__.m\nNet\nq\x00)\x81}${start}${part(first)}X\x01\0\0\x001h\x03${part(second)}ub.`;
  return zip(['model/data.pkl', 'model/constants.pkl'], { 'model/data.pkl': pickle });
}

test.each<[what: string, content: Buffer, isTraining: boolean]>([
  ['modules in evaluation mode', modules(false, false, false), false],
  ['an archive whose modules cannot be read', torchScript(), false],
  ['the whole module in training mode', modules(true, true, true), true],
  ['a part in training mode', modules(false, true, false), true],
  ['the last part in training mode', modules(false, false, true), true],
])('torchScriptFaults of %s', (_, content, isTraining) => {
  writeFileSync(file, content);
  const fault = { message: expect.stringMatching(/^was saved in training mode, /) as string };
  expect(torchScriptFaults(file)).toMatchObject(isTraining ? [fault] : []);
});

test('externalFiles names the files with weights, and onnxFaults reports if they are missing', () => {
  expect(externalFiles(join(DATA, 'outside.onnx'))).toEqual(['outside.bin']);
  expect(externalFiles(join(DATA, 'single.onnx'))).toEqual([]);
  copyFileSync(join(DATA, 'outside.onnx'), file);
  expect(onnxFaults(file)).toEqual([
    {
      message: 'has its weights in outside.bin, which is not in its version folder',
      hint: 'copy outside.bin beside the file',
    },
  ]);
});

test.each([
  ['a text', Buffer.from('version https://git-lfs.github.com/spec/v1')],
  ['TorchScript', torchScript()],
  ['a file that is cut short', readFileSync(join(DATA, 'batched.onnx')).subarray(0, -9)],
  ['an endless number', Buffer.alloc(100, 0xff)],
  ['zeros', Buffer.alloc(100)],
])('onnxFaults reports %s as no ONNX file', (_, content) => {
  writeFileSync(file, content);
  expect(onnxFaults(file)).toMatchObject([{ message: 'is not an ONNX file, or is truncated' }]);
});

test.each<[what: string, check: typeof torchScriptFaults, content: Buffer, message: string]>([
  ['an exported program', programFaults, program('exported'), ''],
  ['a compiled program', programFaults, program('compiled'), ''],
  ['TorchScript as a program', programFaults, torchScript(), 'is TorchScript, not a program'],
  ['weights as a program', programFaults, zip(['a/data.pkl']), 'is a zip archive without a program'],
  ['text as a program', programFaults, Buffer.from('text'), 'is not a program of torch.export, which is a zip archive'],
  ['a program as TorchScript', torchScriptFaults, program('compiled'), 'is a program of torch.export, not TorchScript'],
])('%s', (_, check, content, message) => {
  writeFileSync(file, content);
  expect(
    check(file)
      .map((fault) => fault.message)
      .join('\n'),
  ).toMatch(message === '' ? /^$/ : new RegExp(`^${message}`));
});
