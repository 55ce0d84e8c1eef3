import { UserError } from '../core/errors';
import type { Tensor } from '../triton/tensor';
import type { BgrImage } from '../media/image';

/** The content that the page shows of an answer. */
export type DisplayedResult =
  | { kind: 'restoration'; before: BgrImage; after: BgrImage }
  /** The most probable classes, in descending order. */
  | { kind: 'classes'; picture: BgrImage; classes: ClassProbability[] }
  /** Cosine similarity of the first text with each of the others. */
  | { kind: 'texts'; texts: readonly string[]; similarities: readonly number[] };

export interface ClassProbability {
  label: string;
  /** From 0 to 1. */
  probability: number;
}

/** Number of classes that the page shows. */
const CLASSES = 5;

/** The five most probable classes by the softmax of a classifier's scores. A missing label becomes the class number. */
export function classes(scores: readonly number[], labels: readonly string[]): ClassProbability[] {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const parts = scores.map((score) => Math.exp(score - most));
  const sum = parts.reduce((a, b) => a + b, 0);
  return parts
    .map((part, i) => ({ label: labels[i] ?? String(i), probability: part / sum }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, CLASSES);
}

/**
 * The picture in an output of post_gfpgan or the ensemble: UINT8 [height, width, 3], BGR.
 * @throws UserError for any other tensor
 */
export function toPicture(tensor: Tensor): BgrImage {
  const [height = 0, width = 0, channels] = tensor.shape;
  if (tensor.datatype === 'UINT8' && tensor.shape.length === 3 && channels === 3)
    return { width, height, data: tensor.data };
  const shape = tensor.shape.join(', ');
  throw new UserError(
    `output ${tensor.name} is ${tensor.datatype} [${shape}], not a picture (UINT8 [height, width, 3])`,
  );
}
