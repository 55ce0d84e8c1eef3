import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { argumentFault, forwardArguments } from '../../../src/model/forward-arguments';
import { torchScript, getTorchScript, zip64 } from '../../support/model-files';

const folder = mkdtempSync(join(tmpdir(), 'forward-arguments-'));
const file = join(folder, 'model.pt');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([
  ['', []],
  ['x: Tensor', [{ name: 'x', type: 'Tensor' }]],
  [
    'texts: List[str],\n    pair: Tuple[int, int]=(1, 2)',
    [
      { name: 'texts', type: 'List[str]' },
      { name: 'pair', type: 'Tuple[int, int]' },
    ],
  ],
])('forwardArguments reads "%s"', async (list, expected) => {
  writeFileSync(file, getTorchScript(list));
  expect(await forwardArguments(file)).toEqual(expected);
});

test.each([
  ['an archive without code', torchScript()],
  ['entries whose place is unknown', zip64(['model/data.pkl', 'model/constants.pkl'])],
  ['a code file that is damaged', damaged()],
  ['no archive', Buffer.from('hello')],
])('forwardArguments returns undefined for %s', async (_, content) => {
  writeFileSync(file, content);
  expect(await forwardArguments(file)).toBeUndefined();
  expect(await argumentFault(file, { name: 'm', input: [{ name: 'x' }] })).toBeUndefined();
});

function damaged(): Buffer {
  const whole = getTorchScript('x: Tensor');
  const at = whole.indexOf('model/code/__torch__/m.py') + 'model/code/__torch__/m.py'.length;
  whole.fill(0xff, at, at + 20);
  return whole;
}

test.each([
  ['one dictionary of any number of inputs', 'x: Dict[str, Tensor]', 3],
  ['texts', 'x: List[str]', 1],
  ['as many tensors as inputs', 'x: Tensor,\n    y: Tensor', 2],
])('argumentFault allows %s', async (_, list, count) => {
  writeFileSync(file, getTorchScript(list));
  const input = Array.from({ length: count }, (__, index) => ({ name: `input__${index}` }));
  expect(await argumentFault(file, { name: 'm', input })).toBeUndefined();
});
