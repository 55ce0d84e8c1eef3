/** Kills a server of src/local with all processes of its group, if they still run. */
export function killGroup({ pid }: { pid: number | undefined }): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process group has ended.
  }
}
