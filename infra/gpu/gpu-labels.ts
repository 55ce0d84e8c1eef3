/** Label of every node that a GPU pool of ours made. */
export const GPU_LABEL = 'triton-serving/gpu';

/** Label with the pool that a node is of. */
export const GPU_POOL_LABEL = 'triton-serving/gpu-pool';

/** What a taint does to pods that do not accept it. */
export const TAINT_EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;

export type TaintEffect = (typeof TAINT_EFFECTS)[number];

/** Keeps pods away that do not ask for a GPU. */
export const GPU_TAINT = { key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' } as const;
