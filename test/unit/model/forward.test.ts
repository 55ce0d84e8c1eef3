import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forwardFaults, readForward } from '../../../src/model/forward';
import { torchScript, getTorchScript, zip64 } from '../../support/model-files';

const folder = mkdtempSync(join(tmpdir(), 'forward-'));
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
])('readForward reads "%s"', async (list, expected) => {
  writeFileSync(file, getTorchScript(list, 'Tuple[Tensor, List[str]]'));
  expect(await readForward(file)).toEqual({ arguments: expected, returns: 'Tuple[Tensor, List[str]]' });
});

test.each([
  ['an archive without code', torchScript()],
  ['entries whose place is unknown', zip64(['model/data.pkl', 'model/constants.pkl'])],
  ['a code file that is damaged', damaged()],
  ['no archive', Buffer.from('hello')],
])('readForward returns undefined for %s', async (_, content) => {
  writeFileSync(file, content);
  expect(await readForward(file)).toBeUndefined();
  expect(await forwardFaults(file, { name: 'm', input: [{ name: 'x' }] })).toEqual([]);
});

/** As torch.jit.save writes them: the attribute `training` of the module and of its two parts, of the same class. */
function trained(whole: boolean, first: boolean, second: boolean): string {
  const flag = (value: boolean): string => (value ? '\x88' : '\x89');
  const part = (value: boolean): string => `)\x81}(h\x01${flag(value)}X\x04\0\0\0sizeK\x88ubq\x07`;
  const start = `(X\x08\0\0\0trainingq\x01${flag(whole)}X\x03\0\0\0oneq\x02(K\x01\x88tX\x06\0\0\0layersc__torch__.m\nPart\nq\x03`;
  return `${start}${part(first)}X\x01\0\0\x001h\x03${part(second)}ub.`;
}

test.each<[name: string, flags: [boolean, boolean, boolean], where: string | undefined]>([
  ['no module', [false, false, false], undefined],
  ['the whole module', [true, true, true], 'was saved with the whole module in training mode'],
  ['the first part', [false, true, false], 'was saved with its module layers in training mode'],
  ['the second part', [false, false, true], 'was saved with its module 1 in training mode'],
])('forwardFaults reports %s in training mode', async (_, flags, where) => {
  writeFileSync(file, getTorchScript('x: Tensor', 'Tensor', trained(...flags)));
  const faults = await forwardFaults(file, { name: 'm', input: [{ name: 'x' }], output: [{ name: 'y' }] });
  expect(faults.map(({ message }) => message.split(', in which')[0])).toEqual(where === undefined ? [] : [where]);
});

test.each<[answer: string, operation: string | undefined]>([
  ['torch.dropout(torch.linear(x, w, b), 0.5, True)', 'dropout'],
  ['torch.add(torch.feature_alpha_dropout_(x, 0.10000000000000001, True), x)', 'feature_alpha_dropout_'],
  ['torch.batch_norm((_1).forward(x, ), w, None, m, v, True, 0.1, 1.0000000000000001e-05, True)', 'batch_norm'],
  ['torch.batch_norm(x, w, b, m, v, False, 0.1, 1.0000000000000001e-05, True)', undefined],
  ['torch.batch_norm(x, w, b, None, None, True, 0.1, 1.0000000000000001e-05, True)', undefined],
  ['torch.instance_norm(x, w, b, None, None, True, 0.1, 1.0000000000000001e-05, True)', undefined],
  ['torch.dropout(x, 0., True)', undefined],
  ['torch.dropout(x, 0.5, False)', undefined],
  ['torch.dropout(input, p, training)', undefined],
])('forwardFaults finds the mode of a trace in %s', async (answer, operation) => {
  writeFileSync(file, getTorchScript('x: Tensor', 'Tensor', trained(false, false, false), answer));
  const [fault] = await forwardFaults(file, { name: 'm', input: [{ name: 'x' }], output: [{ name: 'y' }] });
  expect(fault?.message.split(', in which')[0]).toBe(operation && `calls ${operation} in training mode`);
  if (operation !== undefined) expect(fault?.hint).toMatch(/^call model\.eval\(\) before torch\.jit\.trace, /);
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
])('forwardFaults allows %s', async (_, list, count) => {
  writeFileSync(file, getTorchScript(list));
  const input = Array.from({ length: count }, (__, index) => ({ name: `input__${index}` }));
  expect(await forwardFaults(file, { name: 'm', input })).toEqual([]);
});

const FLAT = 'return a tensor or a flat tuple of tensors';
const UNSUPPORTED = "which Triton's libtorch backend does not support";

test.each<[returns: string, outputs: string[], message: string | undefined]>([
  ['Tensor', ['y__0'], undefined],
  ['Tensor', ['scores'], undefined],
  ['Tensor', ['y__1'], 'forward() returns 1 output, and "y__1" of the configuration is not among them'],
  ['Tensor', ['a', 'b'], 'forward() returns 1 output, and "b" of the configuration is not among them'],
  ['Tuple[Tensor, Tensor]', ['y__1', 'x__0'], undefined],
  ['Tuple[Tensor, Tensor]', ['y__1'], undefined],
  // The index follows the first "__", so these names have none, and the order counts.
  ['Tuple[Tensor, Tensor]', ['a__b__7', 'c'], undefined],
  ['Tuple[Tensor, Tensor]', ['y__2'], 'forward() returns 2 outputs, and "y__2" of the configuration is not among them'],
  ['Tuple[Tensor, List[str]]', ['y__0', 'y__1'], undefined],
  ['List[str]', ['y__0'], undefined],
  ['Tuple[Tensor, Optional[Tensor]]', ['y__0', 'y__1'], undefined],
  ['__torch__.Boxes', ['y__9'], undefined],
  ['List[Tensor]', ['y__0'], `forward() returns List[Tensor], ${UNSUPPORTED}`],
  ['Dict[str, Tensor]', ['y__0'], `forward() returns Dict[str, Tensor], ${UNSUPPORTED}`],
  ['Tuple[Tensor, float]', ['y__0'], `forward() returns Tuple[Tensor, float], ${UNSUPPORTED}`],
  [
    'Tuple[Tensor, Tuple[Tensor, Tensor]]',
    ['y__0'],
    `forward() returns Tuple[Tensor, Tuple[Tensor, Tensor]], ${UNSUPPORTED}`,
  ],
  ['NoneType', ['y__0'], `forward() returns NoneType, ${UNSUPPORTED}`],
])('forwardFaults checks a forward() that returns %s against the outputs %j', async (returns, outputs, message) => {
  writeFileSync(file, getTorchScript('x: Tensor', returns));
  const output = outputs.map((name) => ({ name }));
  const [fault] = await forwardFaults(file, { name: 'm', input: [{ name: 'x' }], output });
  expect(fault?.message).toBe(message);
  if (message?.includes(UNSUPPORTED)) expect(fault?.hint).toBe(FLAT);
});
