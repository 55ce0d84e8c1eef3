/** Reads model folders: validated configurations, the text of each config.pbtxt, and the files to publish. */
export { adviceFor } from './advice';
export {
  formatGiB,
  gpuMemoryFault,
  MAIN_MEMORY_HINT,
  mainMemoryFault,
  memoryAdvice,
  serverMemory,
  type ServerMemory,
} from './memory';
export { configText } from './config-text';
export type { ModelConfig, TensorConfig } from './model-config';
export { readRepository, readValidRepository, stepModels } from './repository';
export { exportedPrograms } from './programs';
export { requirePublishable, staleTraces } from './stale-traces';
export { servedVersions, withServedVersions } from './versions';
export type { Repository, RepositoryModel, Selection } from './repository';
export type { SourceFile } from './source-files';
export type { ModelVersion } from './versions';
export { defaultRelease, findUnsupported, getRelease, TRITON_RELEASES } from './triton-releases';
