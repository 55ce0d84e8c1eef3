"""Sends concurrent requests with NVIDIA's tritonclient for a given time, and prints the results as JSON.

tritonclient_load.py FORM ADDRESS MODEL ELEMENTS CONCURRENCY SECONDS
FORM is http-threads, grpc-threads, http-asyncio or grpc-asyncio.
"""

import asyncio
import importlib
import json
import sys
import threading
import time
from typing import Any

import numpy as np

FORM, ADDRESS, MODEL = sys.argv[1:4]
ELEMENTS, CONCURRENCY = int(sys.argv[4]), int(sys.argv[5])
SECONDS = float(sys.argv[6])
WARM_UP_SECONDS = 2

PROTOCOL, MODE = FORM.split("-")
triton: Any = importlib.import_module(f"tritonclient.{PROTOCOL}" + (".aio" if MODE == "asyncio" else ""))
DATA = np.arange(ELEMENTS, dtype=np.float32)

latencies: list[float] = []


def inputs() -> list[Any]:
    """Builds a new request each time, as a service does for each of its users."""
    x = triton.InferInput("x", [ELEMENTS], "FP32")
    x.set_data_from_numpy(DATA)  # Binary data, also over HTTP.
    return [x]


def read(result: Any) -> None:
    if len(result.as_numpy("x")) != ELEMENTS:
        raise ValueError("the response differs from the request")


def in_threads() -> float:
    """Runs one thread for each concurrent request. HTTP clients cannot be shared, so each thread has its own."""
    shared = triton.InferenceServerClient(ADDRESS) if PROTOCOL == "grpc" else None

    def run() -> None:
        client = shared or triton.InferenceServerClient(ADDRESS)
        warm_end = time.perf_counter() + WARM_UP_SECONDS
        while time.perf_counter() < warm_end:
            read(client.infer(MODEL, inputs()))
        ready.wait()
        while time.perf_counter() < start[0] + SECONDS:
            started = time.perf_counter()
            read(client.infer(MODEL, inputs()))
            latencies.append(time.perf_counter() - started)

    start = [0.0]
    ready = threading.Barrier(CONCURRENCY, lambda: start.__setitem__(0, time.perf_counter()))
    threads = [threading.Thread(target=run) for _ in range(CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start[0]


async def in_tasks() -> float:
    async with triton.InferenceServerClient(ADDRESS) as client:

        async def run(end: float) -> None:
            while time.perf_counter() < end:
                started = time.perf_counter()
                read(await client.infer(MODEL, inputs()))
                latencies.append(time.perf_counter() - started)

        async def all_until(end: float) -> None:
            await asyncio.gather(*(run(end) for _ in range(CONCURRENCY)))

        await all_until(time.perf_counter() + WARM_UP_SECONDS)
        latencies.clear()
        started = time.perf_counter()
        await all_until(started + SECONDS)
        return time.perf_counter() - started


took = asyncio.run(in_tasks()) if MODE == "asyncio" else in_threads()
latencies.sort()
milliseconds = [latencies[min(len(latencies) - 1, len(latencies) * percent // 100)] * 1000 for percent in (50, 99)]
print(json.dumps({"requestsPerSecond": len(latencies) / took, "p50": milliseconds[0], "p99": milliseconds[1]}))
