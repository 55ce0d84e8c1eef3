import type { S3Server } from '../../src/local/s3-server';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from './describe-unless';
import { testS3 } from './s3';
import type { Scratch } from './scratch';
import { testVersitygw } from './versitygw';

export type StartS3 = (scratch: Scratch) => Promise<S3Server>;

/** The same tests on each make of S3 server; versitygw, which is built with Go, is left out where there is none. */
export function describeOnEachS3(title: string, body: (start: StartS3, server: string) => void): void {
  describeUnless(whyNoGo(['versitygw']), `${title} versitygw`, () => body(testVersitygw, 'versitygw'));
  describe(`${title} SeaweedFS`, () => body(testS3, 'SeaweedFS'));
}
