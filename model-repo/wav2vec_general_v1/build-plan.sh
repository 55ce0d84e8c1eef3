#!/usr/bin/env bash
# Builds 1/model.plan from the ONNX file of wav2vec_general_v2 (about 5 minutes).
# Run it on a machine with the GPU type that will serve it: a plan runs on no other, nor with another TensorRT version.
# It takes trtexec from PATH, or else from the TensorRT container of the Triton release that the Dockerfile names,
# as both have the same TensorRT version. TRITON_RELEASE=24.10 names another one.
set -euo pipefail

# Length of the sound in samples, 16,000 a second: 0.1 s, 10 s and 30 s. The plan accepts min to max, and is tuned for opt.
min_samples=1600
opt_samples=160000
max_samples=480000

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
models=$(dirname "$here")
onnx=$models/wav2vec_general_v2/1/model.onnx
plan=$here/1/model.plan
dockerfile=$(dirname "$models")/Dockerfile

fail() { # message, what to do
    printf 'build-plan: %s\n  %s\n' "$1" "$2" >&2
    exit 1
}

[[ -s $onnx ]] || fail "$onnx is missing" 'Export it first: npm run trace -- --models wav2vec_general_v2'
[[ ! -e $plan ]] || fail "$plan is there already" 'Remove it to build it again. Once published, a version must not change: make a folder 2.'
command -v nvidia-smi >/dev/null || fail 'no NVIDIA driver (nvidia-smi) here' 'Run this on a machine with the GPU type that will serve the plan.'

max_batch=$(sed -n 's/^max_batch_size: *\([0-9][0-9]*\).*/\1/p' "$here/model.yaml")
[[ -n $max_batch ]] || fail "no max_batch_size in $here/model.yaml" 'It says for which batch size to build: max_batch_size: 8'
shapes=(
    "--minShapes=input_values:1x$min_samples"
    "--optShapes=input_values:${max_batch}x$opt_samples"
    "--maxShapes=input_values:${max_batch}x$max_samples"
)

# Built aside and renamed when whole, so that a broken build is never taken for a plan.
work=$(mktemp -d "$here/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT

if command -v trtexec >/dev/null; then
    trtexec "--onnx=$onnx" "--saveEngine=$work/model.plan" "${shapes[@]}" --skipInference
elif command -v docker >/dev/null; then
    release=${TRITON_RELEASE:-$(sed -n 's/^ARG TRITON_RELEASE=\([0-9.]*\).*/\1/p' "$dockerfile" 2>/dev/null || true)}
    [[ -n $release ]] || fail "no Triton release: $dockerfile has no line ARG TRITON_RELEASE=..." 'Name it: TRITON_RELEASE=24.10 ./build-plan.sh'
    docker run --rm --gpus=1 --user "$(id -u):$(id -g)" \
        --volume "$(dirname "$onnx"):/onnx:ro" --volume "$work:/plan" --entrypoint trtexec \
        "nvcr.io/nvidia/tensorrt:$release-py3" \
        --onnx=/onnx/model.onnx --saveEngine=/plan/model.plan "${shapes[@]}" --skipInference
else
    fail 'neither trtexec nor docker is on PATH' 'Install docker with the NVIDIA container toolkit, or put the trtexec of TensorRT on PATH.'
fi

[[ -s $work/model.plan ]] || fail 'trtexec ended without a plan' 'Its messages above say why.'
mkdir -p "$here/1"
mv "$work/model.plan" "$plan"
printf 'build-plan: %s is ready. Publish it: npm run sync-models -- --models wav2vec_general_v1 --bucket s3://NAME/PREFIX\n' "$plan"
