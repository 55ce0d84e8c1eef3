import type { Settings } from '../../settings';
import type { Check, Context } from '../check';
import type { ServingCluster } from './serving-cluster';

export interface AfterUpContext extends Context {
  cluster: ServingCluster;
}

/** A check of a deployed stack. */
export type AfterUpCheck = Check<AfterUpContext>;

/** Smallest number of replicas of the stack. */
export const getLeastReplicas = ({ autoscaling, replicas }: Pick<Settings['triton'], 'autoscaling' | 'replicas'>) =>
  autoscaling?.minReplicas ?? replicas;
