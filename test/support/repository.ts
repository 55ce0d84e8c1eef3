import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Writes the files of a model repository: path under `directory` -> content. */
export function writeRepository(directory: string, files: Record<string, string | Buffer>): string {
  for (const [path, content] of Object.entries(files)) {
    const file = join(directory, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return directory;
}

/**
 * A model of Triton's python backend that adds a number to its input: files for writeRepository.
 * @param versions version -> number to add
 */
export function addingModel(name: string, versions: Record<number, number>): Record<string, string> {
  const files: Record<string, string> = {
    [`${name}/config.pbtxt`]: [
      `backend: "python"`,
      `max_batch_size: 0`,
      `input { name: "x" data_type: TYPE_FP32 dims: -1 }`,
      `output { name: "y" data_type: TYPE_FP32 dims: -1 }`,
      `version_policy { specific { versions: [${Object.keys(versions).join(', ')}] } }`,
      `instance_group { count: 1 kind: KIND_CPU }`,
      '',
    ].join('\n'),
  };
  for (const [version, amount] of Object.entries(versions))
    files[`${name}/${version}/model.py`] = answeringProgram('x', 'y', `x + np.float32(${amount})`);
  return files;
}

/** Fetch keeps a connection for seconds, and a Triton that ends waits for it. */
const CLOSED = { connection: 'close' };

/** The answer of a model of `addingModel` to 1, or the error, from a server at an HTTP address. */
export async function askOne(server: string, model = 'adds'): Promise<unknown> {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1], data: [1] }] });
  const response = await fetch(`${server}/v2/models/${model}/infer`, { method: 'POST', headers: CLOSED, body });
  const answer = (await response.json()) as {
    outputs?: { data: number[] }[];
    error?: string;
  };
  return answer.outputs?.[0]?.data[0] ?? answer.error;
}

/**
 * A `model.py` for Triton's python backend.
 * @param answer a NumPy expression of `x`, the array of `input`
 */
export function answeringProgram(input: string, output: string, answer: string): string {
  // NumPy, because importing PyTorch takes seconds in each model process of a server.
  return `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "${input}").as_numpy()
            y = pb_utils.Tensor("${output}", ${answer})
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
`;
}

/**
 * Python code to prepend to a model's program, which runs `what` when the model is loaded.
 * @param condition on which servers: a Python expression of `server`, the name of TestPod
 */
export const onLoad = (condition: string, what: string): string => `import os, signal, time
server = __file__.split("/agent/models/")[0].split("/")[-1]
if ${condition}:
    ${what}
`;

/**
 * For `onLoad`: crashes the server. The model's process would outlive it, and keep connections of the server open; in a pod it
 * ends with its container.
 */
export const CRASH = 'os.kill(os.getppid(), signal.SIGSEGV); os._exit(1)';

/** An ensemble of one adding model. */
export function addingEnsemble(name: string, step: string): Record<string, string> {
  return {
    [`${name}/config.pbtxt`]: [
      'platform: "ensemble"',
      'input { name: "x" data_type: TYPE_FP32 dims: -1 }',
      'output { name: "y" data_type: TYPE_FP32 dims: -1 }',
      'ensemble_scheduling { step {',
      `  model_name: "${step}" model_version: -1`,
      '  input_map { key: "x" value: "x" } output_map { key: "y" value: "y" }',
      '} }',
      '',
    ].join('\n'),
    [`${name}/1/.keep`]: 'An ensemble has no file.\n',
  };
}

/**
 * Sends bodies of `mib` MiB with curl's default Content-Type, more at once than a server has HTTP threads, and then
 * returns what askOne does.
 */
export async function askAfterForms(server: string, mib: number, model = 'adds'): Promise<unknown> {
  const body = Buffer.alloc(mib * 2 ** 20, 'k');
  const headers = { ...CLOSED, 'content-type': 'application/x-www-form-urlencoded' };
  const send = (): Promise<unknown> =>
    fetch(`${server}/v2/models/${model}/infer`, { method: 'POST', headers, body }).then((answer) => answer.text());
  await Promise.all(Array.from({ length: 10 }, send));
  return askOne(server, model);
}
