import { XMLParser } from 'fast-xml-parser';
import { childrenNamed, childText, escapeXml, MalformedXmlError, parseXml } from '../../../src/s3/xml';

const LISTING = `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix/><KeyCount>2</KeyCount>
  <Contents><Key>a&amp;b&#x20;&#233;&lt;</Key><ETag>&quot;1&#34;</ETag><Size>3</Size></Contents>
  <Contents ><Key> b</Key><ETag>"2"</ETag><Size>4</Size><Owner kind='x y'><ID></ID></Owner></Contents>
</ListBucketResult>
`;

test('parseXml reads elements, text and character references', () => {
  const root = parseXml(LISTING);
  expect(root.name).toBe('ListBucketResult');
  expect(root.text).toBe('');
  expect(childText(root, 'Prefix')).toBe('');
  expect(childText(root, 'Marker')).toBeUndefined();
  expect(childrenNamed(root, 'Contents').map((entry) => childText(entry, 'Key'))).toEqual(['a&b é<', ' b']);
  expect(childrenNamed(root, 'Contents').map((entry) => childText(entry, 'ETag'))).toEqual(['"1"', '"2"']);
});

test('parseXml agrees with a general parser', () => {
  const keys = Array.from({ length: 300 }, (_, i) => `models/m ${i}/é&<${String.fromCodePoint(33 + i)}>`);
  const contents = keys.map((key) => `<Contents><Key>${escapeXml(key)}</Key><Size>${key.length}</Size></Contents>`);
  const text = `<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join('')}</ListBucketResult>`;
  const general = new XMLParser({ parseTagValue: false, trimValues: false, htmlEntities: true }).parse(text) as {
    ListBucketResult: { Contents: { Key: string; Size: string }[] };
  };
  const ours = childrenNamed(parseXml(text), 'Contents').map((entry) => ({
    Key: childText(entry, 'Key'),
    Size: childText(entry, 'Size'),
  }));
  expect(ours).toEqual(general.ListBucketResult.Contents);
  expect(ours.map(({ Key }) => Key)).toEqual(keys);
});

test('parseXml rejects a document that is cut off, at every position', () => {
  const whole = LISTING.trimEnd();
  for (let length = 0; length < whole.length; length += 1) {
    expect(() => parseXml(whole.slice(0, length))).toThrow(MalformedXmlError);
  }
});

test.each([
  ['a wrong end tag', '<a><b></a></b>'],
  ['two roots', '<a></a><b></b>'],
  ['text after the root', '<a></a>x'],
  ['an end tag alone', '</a>'],
  ['a document type', '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'],
  ['an unknown character', '<a>&b;</a>'],
  ['a lone ampersand', '<a>b & c</a>'],
  ['a reference to an invalid character', '<a>&#x110000;</a>'],
  ['an HTML page', '<html><body><br>Sign in<p></body></html>'],
  ['JSON', '{"a": 1}'],
])('parseXml rejects %s', (_, text) => {
  expect(() => parseXml(text)).toThrow(MalformedXmlError);
});

test('parseXml ignores white space before the document, which S3 sends while it works', () => {
  expect(parseXml('\n  \n<?xml version="1.0"?>\n<a>b</a>\n').text).toBe('b');
});

test('parseXml restores text that escapeXml escaped', () => {
  const text = `<a> & "b" 'c'\r\n\td`;
  expect(parseXml(`<x>${escapeXml(text)}</x>`).text).toBe(text);
});
