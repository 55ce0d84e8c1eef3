/** Golden requests of a model folder and of a release: inference requests with their expected answers. */
export {
  compareAnswer,
  describeMismatch,
  measureAnswer,
  withRounding,
  type Difference,
  type Mismatch,
} from './compare';
export { decodeGolden, encodeGolden } from './object';
export { readGolden, type ReadGolden } from './read';
export {
  comparesOnlyShapes,
  GOLDEN_FOLDER,
  requestsFor,
  type ExpectedOutput,
  type GoldenRequest,
  type Tolerance,
} from './request';
export { answeredRow, rowProbes, type RowProbe } from './rows';
export { contradiction, zeroInputs } from './zeros';
