const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1, ms: 1e-3, µs: 1e-6, us: 1e-6 };

/**
 * Seconds of a pull in an event of the kubelet: "Successfully pulled image "X" in 2m10.8s (2m11s including waiting)".
 * Undefined for other messages, such as "already present on machine". With the pull policy `Always`, the kubelet reports a
 * pull of less than a second instead if the image is on the node.
 */
export function parsePull(message: string): number | undefined {
  const [, pulling, waiting] =
    /^Successfully pulled image .* in (\S+)(?: \((\S+) including waiting\))?/.exec(message) ?? [];
  const duration = waiting ?? pulling;
  if (duration === undefined) return undefined;
  const parts = [...duration.matchAll(/([\d.]+)(ms|µs|us|h|m|s)/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNIT_SECONDS[unit] ?? 0), 0);
}

const BINARY: Readonly<Record<string, number>> = { '': 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

/** GiB of a quantity of Kubernetes in bytes: "262012908Ki", "500Gi". */
export function parseStorageGiB(quantity: string): number {
  const [, count = '0', unit = ''] = /^(\d+)([KMGT]i)?$/.exec(quantity) ?? [];
  return (Number(count) * (BINARY[unit] ?? 0)) / 2 ** 30;
}

/** How an image of NVIDIA describes the driver at the start of its log. */
export type DriverReport =
  | { kind: 'ok' | 'missing' | 'insufficient' | 'unknown' }
  | { kind: 'compatible'; driver: string; cuda: string }
  | { kind: 'too old'; driver: string; needed: string };

/**
 * Reads the messages of the entry point of NVIDIA's images (/opt/nvidia/entrypoint.d), as in public logs of
 * tritonserver:23.12-py3, tritonserver:22.07-py3 and vllm:26.01-py3 (read 2026-11-26), and of the CUDA runtime.
 */
export function parseDriver(log: string): DriverReport {
  if (/NVIDIA Driver was not detected/.test(log)) return { kind: 'missing' };
  const old =
    /built for NVIDIA Driver Release ([\d.]+) or later, but\s+version ([\d.]*) ?was detected and compatibility mode is UNAVAILABLE/.exec(
      log,
    );
  if (old !== null) return { kind: 'too old', needed: old[1] ?? '', driver: old[2] ?? '' };
  if (/CUDA driver version is insufficient/.test(log)) return { kind: 'insufficient' };
  const forward = /Using CUDA ([\d.]+) driver version \S+ with kernel driver version ([\d.]+\d)/.exec(log);
  if (forward !== null) return { kind: 'compatible', cuda: forward[1] ?? '', driver: forward[2] ?? '' };
  return { kind: /^NVIDIA Release \d/m.test(log) ? 'ok' : 'unknown' };
}
