#!/usr/bin/env bash
# Locks each .in file in a .txt file: exact versions for every supported Python version.
set -euo pipefail
cd "$(dirname "$0")"
# The CUDA libraries are omitted, because PyTorch's metadata pins them and its CPU builds do not need them.
cuda=(cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cccl nvidia-cuda-cupti nvidia-cuda-nvrtc
  nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse
  nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx triton)
compile() { # name, options
  local name=$1
  shift
  uv pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header --upgrade \
    "${cuda[@]/#/--no-emit-package=}" "$@" "$name.in" --output-file "$name.txt"
}
compile runtime
compile development
compile moto
compile checkov
compile gfpgan --no-deps --generate-hashes
