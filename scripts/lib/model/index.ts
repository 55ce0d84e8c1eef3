/** Model folders -> validated configurations, the text of each config.pbtxt, and the files to publish. */
export { configText } from './configText';
export type { ModelConfig, TensorConfig } from './modelConfig';
export { readRepository, stepModels } from './repository';
export type { Repository, RepositoryModel, Selection } from './repository';
export type { SourceFile } from './sourceFiles';
export type { ModelVersion } from './versions';
