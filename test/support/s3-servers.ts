import type { S3Server } from '../../src/local/s3-server';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from './describe-unless';
import { testS3 } from './s3';
import type { Scratch } from './temp-dir';
import { testVersitygw } from './versitygw';

export type StartS3 = (scratch: Scratch) => Promise<S3Server>;

/** Runs the same tests on each S3 server. versitygw is skipped if there is no Go to build it. */
export function describeOnEachS3(title: string, body: (start: StartS3, server: string) => void): void {
  describeUnless(whyNoGo(['versitygw']), `${title} versitygw`, () => body(testVersitygw, 'versitygw'));
  describe(`${title} SeaweedFS`, () => body(testS3, 'SeaweedFS'));
}
