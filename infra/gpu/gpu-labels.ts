export const GPU_LABEL = 'triton-serving/gpu';

/** Label with the name of the pool that the node belongs to. */
export const GPU_POOL_LABEL = 'triton-serving/gpu-pool';

/** Effects of a taint on pods that do not tolerate it. */
export const TAINT_EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;

export type TaintEffect = (typeof TAINT_EFFECTS)[number];

/** Keeps pods that do not request a GPU away from GPU nodes. */
export const GPU_TAINT = { key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' } as const;
