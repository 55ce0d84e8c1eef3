/** Settings of a stack with a publisher. The subject in the stack files is an example, which creates no role. */
export const PUBLISHER = {
  publisherSubjects: ['repo:acme@1234/serving@5678:environment:prod'],
};
