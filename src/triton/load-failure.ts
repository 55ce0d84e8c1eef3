/** Why a server could not load a model, in words for the user. */
export interface LoadFailure {
  message: string;
  /** What to do, if the reason is a known one. */
  hint?: string;
}

/** The local folder to which Triton copies a model from S3. Its name differs in each load. */
const COPY_OF_FOLDER = /(?:[^\s'"]*\/)?\bfolder\w{6}\//g;

/** What Triton writes before the reason. */
const UNAVAILABLE = /^load failed for model '[^']*': version \d+ is at UNAVAILABLE state: (?:Internal: )?/;

/** An error in a TorchScript file: a fixed sentence, several tracebacks, and the error. */
const TORCHSCRIPT = /The following operation failed in the TorchScript interpreter\.[^]*\n(?:builtins\.)?(\S.*?)\s*$/;

/**
 * Shortens a reason that the server gave. Of tracebacks of TorchScript, keeps only the error at the end. Of the stack frames after an exception in a model.py, keeps only the
 * innermost one in the model's own files, with its path in the repository: `ValueError: no (resnet/1/model.py, line 4,
 * in execute)`.
 */
export function withoutFrames(model: string, reason: string): string {
  const shortened = reason.replaceAll(COPY_OF_FOLDER, `${model}/`).replace(TORCHSCRIPT, '$1');
  const [said = '', frames = ''] = shortened.split(/\s*At:\s*\n/);
  for (const frame of frames.split('\n')) {
    const [, path = '', line, name] = /^\s*(\S+)\((\d+)\): (\S+)$/.exec(frame) ?? [];
    const at = `/${path}`.lastIndexOf(`/${model}/`);
    if (at >= 0) return `${said.trim()} (${path.slice(at)}, line ${line}, in ${name})`;
  }
  return said.trim();
}

/** @param reason that the server gave; for a Python-backend model an exception and its stack frames */
export function explainLoadFailure(model: string, reason: string): LoadFailure {
  const message = withoutFrames(model, reason).replace(UNAVAILABLE, '');
  const module = /ModuleNotFoundError: No module named '([^'.]+)/.exec(message)?.[1];
  if (/KIND_GPU but no GPUs/.test(message)) {
    return {
      message,
      hint: 'omit "kind" in its instance_group: Triton then uses every GPU, or the CPU if there is no GPU',
    };
  }
  if (message.includes('failed to poll from model repository')) {
    return { message, hint: "the configuration contradicts itself; Triton's log names the fields" };
  }
  if (module === undefined) return { message };
  return {
    message: `no module ${module} (${message})`,
    hint:
      `add the package of ${module} (its name may differ) to ${model}/requirements.txt, which npm run local installs; replicas ` +
      'of a stack need it in their image or in EXECUTION_ENV_PATH: docs/python-models.md',
  };
}

/** Why a request failed, in words for the user. */
export function explainRequestFailure(model: string, reason: string): string {
  const message = withoutFrames(model, reason);
  if (!/stub process .* is not healthy/i.test(message)) return message;
  return `${message} The process of its model.py ended, for example after a crash, os._exit or lack of memory. Triton's log has its last output`;
}
