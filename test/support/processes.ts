import { processIds, readProcess } from '../../src/local/process/proc';

/** Ids of the processes of a program that have this text in an argument. */
export const findProcesses = (program: RegExp, text: string): number[] =>
  processIds().filter((pid) => {
    const [first = '', ...args] = readProcess(pid, 'cmdline')?.split('\0') ?? [];
    return program.test(first) && args.some((arg) => arg.includes(text));
  });
