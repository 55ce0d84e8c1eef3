import { printJson, type LocalResult } from '../../../src/local/report';

test('printJson prints the answers without the content of the page', () => {
  const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  const answer = { model: 'm', protocol: 'HTTP', milliseconds: 1, result: 'cat' } as const;
  const picture = { width: 1, height: 1, data: new Uint8Array(3) };
  const display = { kind: 'classes', picture, classes: [] } as const;
  const result = { models: [], answers: [{ ...answer, display }] } as unknown as LocalResult;
  printJson(result, '/page.html');
  expect(JSON.parse(String(write.mock.calls[0]?.[0]))).toEqual({ models: [], answers: [answer], page: '/page.html' });
  write.mockRestore();
});
