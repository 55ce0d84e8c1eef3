import { watchInterrupts } from '../../../src/cli/interrupts';

test('watchInterrupts counts signals within a second as one, and removes its listeners', () => {
  const now = jest.spyOn(Date, 'now').mockReturnValue(0);
  const calls: string[] = [];
  const listeners = process.listenerCount('SIGINT');
  const stop = watchInterrupts({ first: () => calls.push('first'), again: () => calls.push('again') });
  const after: string[][] = [];
  for (const at of [10_000, 10_999, 11_000, 11_001]) {
    now.mockReturnValue(at);
    process.emit(at === 10_999 ? 'SIGTERM' : 'SIGINT');
    after.push([...calls]);
  }
  stop();
  now.mockRestore();
  expect(after).toEqual([['first'], ['first'], ['first', 'again'], ['first', 'again', 'again']]);
  expect(process.listenerCount('SIGINT')).toBe(listeners);
});
