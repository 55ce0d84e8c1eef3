import type * as pulumi from '@pulumi/pulumi';
import type { TritonSettings } from './settings';

/** What every step of TritonServer works with. */
export interface Part {
  settings: TritonSettings;
  /** Where the objects go; the name of the namespace once it is there. */
  namespace: pulumi.Input<string>;
  /** `parent: this` of the component. */
  options: pulumi.CustomResourceOptions;
}
