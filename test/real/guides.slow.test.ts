import { Scratch } from '../support/temp-dir';
import { walkThrough } from '../support/walk-through';

jest.setTimeout(600_000);

test.each<{ page: string; skipped?: string[]; commands: number }>([
  { page: 'tutorial.md', commands: 8 },
  { page: 'python-models.md', skipped: ['dockerfile', 'console'], commands: 3 },
  { page: 'migration.md', commands: 6 },
])('the commands of docs/$page work in order', async ({ page, skipped, commands }) => {
  const scratch = new Scratch();
  try {
    const blocks = await walkThrough(scratch, page, skipped);
    expect(blocks.filter(({ language }) => language === 'sh')).toHaveLength(commands);
  } finally {
    await scratch.clean();
  }
});
