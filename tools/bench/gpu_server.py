"""Measures a real Triton server on a GPU with the models of this project: golden requests, the ensemble, batching.

`python3 tools/bench/gpu_server.py --repo DIR --server DIR [--seconds N]`, with PyTorch and NumPy. --repo: what
`npm run export` writes, with the golden folders of model-repo. --server: the unpacked wheel of nvidia-pytriton. Each
row is printed as a line of JSON. GPU_BENCH_LIBPYTHON names a folder with libpython if the interpreter has none.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

PYTHON = Path(__file__).resolve().parents[2] / "python"
SINGLE = "infer_face_restoration_v2.1"
ENSEMBLE = "ens_face_restoration_v2.1"
PORT = 18000


Headers: TypeAlias = dict[str, str]
Inputs: TypeAlias = Sequence[tuple[str, np.ndarray[Any, Any], str]]
"""Name, values and Triton's data type of each input."""


def rate(model: str, inputs: Inputs, count: int, seconds: float) -> dict[str, float]:
    """Requests a second and latencies of `count` clients, each a process with one connection."""
    fork = multiprocessing.get_context("fork")
    queue: Any = fork.Queue()
    start = time.time() + 1 + count / 50
    window = (start, start + seconds)
    workers = [fork.Process(target=_client, args=(model, inputs, window, queue)) for _ in range(count)]
    for worker in workers:
        worker.start()
    latencies: list[float] = sorted(value for _ in workers for value in queue.get(timeout=seconds + 60))
    for worker in workers:
        worker.join()
    if not latencies:
        raise RuntimeError("no request succeeded")
    return {
        "requestsPerSecond": round(len(latencies) / seconds, 1),
        "p50Ms": round(1000 * latencies[len(latencies) // 2], 2),
        "p99Ms": round(1000 * latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)], 2),
    }


def _client(model: str, inputs: Inputs, window: tuple[float, float], queue: Any) -> None:
    """Send requests one after the other until the window ends, and put the latencies inside the window."""
    latencies: list[float] = []
    try:
        body, headers = request_of(inputs)
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        while (now := time.time()) < window[1]:
            send(connection, model, body, headers)
            if now >= window[0]:
                latencies.append(time.time() - now)
    finally:
        queue.put(latencies)


def send(
    connection: http.client.HTTPConnection, model: str, body: bytes, headers: Headers
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request. Return its answer; raise RuntimeError if the server refused it."""
    connection.request("POST", f"/v2/models/{model}/infer", body, headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status != HTTPStatus.OK:
        raise RuntimeError(f"{model}: {answer.decode(errors='replace')[:300]}")
    return response, answer


def request_of(inputs: Inputs) -> tuple[bytes, Headers]:
    """Return body and headers of a request with binary tensors, which asks for binary answers."""
    described = [
        {"name": name, "shape": list(array.shape), "datatype": kind, "parameters": {"binary_data_size": array.nbytes}}
        for name, array, kind in inputs
    ]
    head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(array.tobytes() for _, array, _ in inputs)
    return body, {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}


def golden_difference(repo: Path, name: str) -> dict[str, Any]:
    """Ask the server the golden requests of a model, and return the largest difference to the stored answers."""
    most = largest = 0.0
    for file in sorted((repo / name / "golden").glob("*/traced-*.json")):
        golden = json.loads(file.read_text(encoding="utf-8"))
        given = [(one["name"], np.load(file.parent / one["file"]), one["datatype"]) for one in golden["inputs"]]
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        response, answer = send(connection, name, *request_of(given))
        length = int(response.headers["Inference-Header-Content-Length"])
        values: dict[str, bytes] = {}
        at = length
        for one in json.loads(answer[:length])["outputs"]:
            size = one["parameters"]["binary_data_size"]
            values[one["name"]], at = answer[at : at + size], at + size
        for wanted in golden["outputs"]:
            expected = np.load(file.parent / wanted["file"])
            got = np.frombuffer(values[wanted["name"]], expected.dtype).reshape(expected.shape)
            if expected.size:
                most = max(most, float(np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()))
                largest = max(largest, float(np.abs(expected.astype(np.float64)).max()))
    return {"model": name, "difference": most, "largest": largest}


@contextmanager
def server(
    installed: Path, repository: Path, models: Sequence[str], variables: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """A real tritonserver with the backends of this project. Yields the seconds until each model was loaded."""
    folder = repository.parent
    backends = folder / "backends"
    shutil.rmtree(backends, ignore_errors=True)
    triton = installed / "pytriton" / "tritonserver"
    shutil.copytree(triton / "backends" / "python", backends / "python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = backends / "python" / "triton_python_backend_stub"
    shutil.copy(triton / "python_backend_stubs" / version / stub.name, stub)
    stub.chmod(0o755)
    (triton / "bin" / "tritonserver").chmod(0o755)
    for name in ("pytorch", "lib"):
        shutil.copytree(PYTHON / "backends" / name, backends / name)
    libraries = [installed / "nvidia_pytriton.libs", Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")]
    if os.environ.get("GPU_BENCH_LIBPYTHON"):
        libraries.append(Path(os.environ["GPU_BENCH_LIBPYTHON"]))
    environment = {
        "LD_LIBRARY_PATH": ":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")]),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/root"),
        **variables,
    }
    command = [
        str(triton / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in models),
        f"--backend-directory={backends}",
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--http-address=127.0.0.1",
        f"--http-port={PORT}",
        "--allow-grpc=false",
        "--metrics-address=127.0.0.1",
        f"--metrics-port={PORT + 2}",
        "--log-verbose=0",
    ]
    log = folder / "triton.log"
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        ready: dict[str, float] = {}
        while len(ready) < len(models) and time.perf_counter() - started < 150:
            if process.poll() is not None or "failed to load" in log.read_text(errors="replace"):
                raise RuntimeError(f"the server failed:\n{log.read_text(errors='replace')[-3000:]}")
            for name in models:
                if name not in ready and is_ready(name):
                    ready[name] = round(time.perf_counter() - started, 1)
            time.sleep(0.05)
        if len(ready) < len(models):
            raise RuntimeError(f"only {list(ready)} are ready:\n{log.read_text(errors='replace')[-3000:]}")
        yield {"readySeconds": ready}
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_ready(model: str) -> bool:
    """Return whether the server serves a model."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/models/{model}/ready", timeout=1) as response:
            return bool(response.status == HTTPStatus.OK)
    except OSError:
        return False


KINDS = {"int64": "INT64", "float32": "FP32", "uint8": "UINT8"}


def tensors(name: str) -> Inputs:
    """Return random inputs of a request for one row."""
    random = np.random.default_rng(0)
    if name == "bert":
        arrays: list[Any] = [random.integers(1000, 20000, (1, 128)), np.ones((1, 128), np.int64)]
    elif name == ENSEMBLE:
        return [("raw_image", random.integers(0, 255, (256, 256, 3), dtype=np.uint8), "UINT8")]
    else:
        size = 224 if name == "resnet" else 256
        arrays = [random.random((1, 3, size, size), np.float32)]
    return [(f"input__{index}", array, KINDS[str(array.dtype)]) for index, array in enumerate(arrays)]


def variant(source: Path, target: Path, name: str, edit: Callable[[str], str]) -> None:
    """Copy a model with another configuration; its files are links."""
    shutil.rmtree(target / name, ignore_errors=True)
    (target / name).mkdir(parents=True)
    for entry in (source / name).iterdir():
        if entry.name.isdecimal() or entry.suffix == ".txt":
            (target / name / entry.name).symlink_to(entry.resolve())
    if not any(entry.name.isdecimal() for entry in (target / name).iterdir()):
        (target / name / "1").mkdir()
    (target / name / "config.pbtxt").write_text(edit((source / name / "config.pbtxt").read_text(encoding="utf-8")))


def on_gpu(count: int) -> Callable[[str], str]:
    return lambda text: (
        re.sub(r"instance_group.*?\n\]?\}?\n", "", text, flags=re.S)
        + f"\ninstance_group [ {{ kind: KIND_GPU count: {count} }} ]\n"
    )


def without_batcher(text: str) -> str:
    return re.sub(r"dynamic_batching\s*\{[^}]*\}", "", text)


def with_delay(microseconds: int) -> Callable[[str], str]:
    return lambda text: re.sub(
        r"dynamic_batching\s*\{[^}]*\}", f"dynamic_batching {{ max_queue_delay_microseconds: {microseconds} }}", text
    )


def same(text: str) -> str:
    """Keep a configuration."""
    return text


# Model, description, change of its configuration, numbers of clients.
VARIANTS: list[tuple[str, str, Callable[[str], str], list[int]]] = [
    ("gfpgan", "as in model.yaml", same, [1, 8, 32]),
    ("gfpgan", "without dynamic_batching", without_batcher, [1, 8, 32]),
    ("gfpgan", "delay of 2 ms", with_delay(2000), [1, 8, 32]),
    ("gfpgan", "delay of 10 ms", with_delay(10000), [8, 32]),
    ("gfpgan", "two instances", on_gpu(2), [1, 8, 32]),
    ("gfpgan", "max_batch_size 16", lambda text: text.replace("max_batch_size: 8", "max_batch_size: 16"), [32]),
    ("resnet", "as in model.yaml", same, [1, 8, 32]),
    ("resnet", "without dynamic_batching", without_batcher, [1, 8, 32]),
    ("bert", "as in model.yaml", same, [1, 8, 32]),
    ("bert", "without dynamic_batching", without_batcher, [1, 8, 32]),
]

# The variables of every server of this project (src/triton/serving.ts).
VARIABLES = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184",
}


def serve(repo: Path, installed: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Differences to the golden requests; images a second of the ensemble; requests a second of each variant."""
    steps = ["pre_gfpgan", SINGLE, "post_gfpgan"]

    def load(model: str, clients: int) -> dict[str, float]:
        return rate(model, tensors(model), clients, seconds)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        everything = ["gfpgan", "resnet", "bert", *steps, ENSEMBLE]
        for name in everything:
            variant(repo, folder, name, same)
        with server(installed, folder, everything, VARIABLES) as facts:
            yield {"section": "all models", **facts}
            for name in everything[:-1]:
                yield {"section": "golden requests", **golden_difference(repo, name)}
        for place, edit in (("CPU", same), ("GPU", on_gpu(1))):
            shutil.rmtree(folder)
            for name in [*steps, ENSEMBLE]:
                variant(repo, folder, name, edit if name in {"pre_gfpgan", "post_gfpgan"} else same)
            for title, variables in (("with", VARIABLES), ("without", {})):
                with server(installed, folder, [*steps, ENSEMBLE], variables):
                    for clients in (1, 4, 16):
                        row = {"section": "ensemble", "pre and post on": place, "variables": title, "clients": clients}
                        yield row | load(ENSEMBLE, clients)
        for name, title, edit, counts in VARIANTS:
            shutil.rmtree(folder)
            variant(repo, folder, name, edit)
            with server(installed, folder, [name], VARIABLES) as facts:
                for clients in counts:
                    row = {"section": "batching", "model": name, "variant": title, "clients": clients}
                    yield row | load(name, clients) | facts


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="gpu_server.py")
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    for row in serve(options.repo, options.server, options.seconds):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
