import { Scratch } from '../support/temp-dir';
import { walkThrough } from '../support/walk-through';

jest.setTimeout(600_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('the commands of the guide for Python-backend models work, except those for a stack', async () => {
  const blocks = await walkThrough(scratch, 'python-models.md', ['dockerfile', 'console']);
  expect(blocks.filter(({ language }) => language === 'sh')).toHaveLength(3);
});
