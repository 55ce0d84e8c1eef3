/** Whether weights were trained or drawn at random. */
export type WeightKind = 'pretrained' | 'random';

/** The commit that a release was made from, and its message. */
export interface Provenance {
  /** Commit of the repository folder, with a `+` if files in it differ from the commit. */
  commit?: string | undefined;
  message?: string | undefined;
}

/** What a release records about itself. */
export interface ReleaseInfo extends Provenance {
  /** Ids sort by time: `20261120T113254123Z-1f2e3d4c`. */
  id: string;
  /** ISO 8601. */
  createdAt: string;
  /** Id of the previous release. */
  previous?: string | undefined;
  /** Origin of the release: `sync-models`, `rollback to ID`, `promoted from s3://...`. */
  origin: string;
  /** The user who made the release: `user@host`. */
  by: string;
  /** For a rollback: id of the release that it restored. */
  restores?: string | undefined;
  /** Set if no model was asked (--no-ask). */
  notAsked?: true | undefined;
}

/** What a release records about a model. */
export interface ReleasedModelInfo {
  /** Versions that Triton serves, ascending. */
  served: number[];
  /** Models that must be loaded first: the steps of an ensemble. */
  composedOf: string[];
  /** Version -> kind of its weights, if tracing recorded it. */
  weightKinds?: Record<string, WeightKind> | undefined;
}
