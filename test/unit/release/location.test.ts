import { parseLocation } from '../../../src/release/location';

describe('parseLocation', () => {
  test.each([
    ['s3://models-prod/models', 'models-prod', 'models'],
    ['s3://models-prod/a/b.c_d-e/', 'models-prod', 'a/b.c_d-e'],
    ['s3://models.prod/models//', 'models.prod', 'models'],
  ])('parses %s', (text, bucket, prefix) => {
    expect(parseLocation(text)).toEqual({ bucket, prefix });
  });

  test.each([
    ['models-prod/models', /not an S3 location/],
    ['https://models-prod/models', /not an S3 location/],
    ['s3://Models/models', /"Models" cannot be a bucket name/],
    ['s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/a/models', /ARNs of access points are not supported/],
    ['s3://ab/models', /"ab" cannot be a bucket name/],
    ['s3://a..b/models', /"a..b" cannot be a bucket name/],
    ['s3://m--use1-az4--x-s3/models', /"m--use1-az4--x-s3" is a directory bucket/],
    ['s3:///models', /"" cannot be a bucket name/],
    ['s3://models-prod', /the prefix is missing/],
    ['s3://models-prod/', /the prefix is missing/],
    ['s3://models-prod/a//b', /prefix "a\/\/b" has an empty part/],
    ['s3://models-prod/a b', /prefix "a b" has an empty part or characters/],
  ])('rejects %s', (text, message) => {
    expect(() => parseLocation(text)).toThrow(message);
  });
});
