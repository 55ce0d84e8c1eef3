import { Scratch } from '../support/temp-dir';
import { walkThrough } from '../support/walk-through';

jest.setTimeout(600_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('the commands of the tutorial work in order', async () => {
  const blocks = await walkThrough(scratch, 'tutorial.md');
  expect(blocks.filter(({ language }) => language === 'sh')).toHaveLength(9);
});
