/** Golden requests: inference requests with the answers that are expected, of a model folder and of a release. */
export { compareAnswer, describeMismatch, measureAnswer, type Difference, type Mismatch } from './compare';
export { decodeGolden, encodeGolden, verifyGolden, type ReleasedGolden } from './object';
export { readGolden, type ReadGolden } from './read';
export { GOLDEN_FOLDER, requestsFor, type ExpectedOutput, type GoldenRequest, type Tolerance } from './request';
export { contradiction, zeroInputs } from './zeros';
