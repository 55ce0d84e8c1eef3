/**
 * Pulumi notes a stack trace with every promise of its own, for the case that one of them never settles, and looks up
 * the sources of all of them: a third of the processor time of a program with a hundred resources. Those few words are
 * left out; every other stack trace is as before.
 */
exports.skipDebugStacks = () => {
  const { prepareStackTrace } = Error;
  if (prepareStackTrace === undefined) return; // Nobody looks up sources.
  Error.prepareStackTrace = (error, frames) =>
    frames[0]?.getFunctionName() === 'debuggablePromise' ? String(error) : prepareStackTrace(error, frames);
};
