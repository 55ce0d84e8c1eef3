import { readdirSync } from 'node:fs';
import { paths } from '../src/core/paths';

/**
 * The models that this package ships, whose style `npm run check` checks. Any other model in model-repo/ belongs to its
 * user, and only `npm run validate` checks it.
 */
export const SHIPPED_MODELS: readonly string[] = [
  'bert',
  'ens_face_restoration_v2.1',
  'gfpgan',
  'infer_face_restoration_v2.1',
  'post_gfpgan',
  'pre_gfpgan',
  'resnet',
  'wav2vec_general_v1',
  'wav2vec_general_v2',
];

/** Folders of model-repo/ that belong to the user. */
export const ownModels = (): string[] =>
  readdirSync(paths.modelRepository, { withFileTypes: true })
    .filter((entry) => !entry.isFile() && !SHIPPED_MODELS.includes(entry.name))
    .map(({ name }) => name);
