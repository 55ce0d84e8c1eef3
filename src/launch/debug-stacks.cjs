/**
 * Pulumi records a stack trace for each of its promises, in case one never settles, and maps each of them to its
 * sources. This takes a third of the processor time of a program with a hundred resources. This function omits these
 * stack traces and leaves all others as they are.
 */
exports.skipDebugStacks = () => {
  const { prepareStackTrace } = Error;
  if (prepareStackTrace === undefined) return; // Stack traces are not mapped to sources.
  Error.prepareStackTrace = (error, frames) =>
    frames[0]?.getFunctionName() === 'debuggablePromise' ? String(error) : prepareStackTrace(error, frames);
};
