#!/usr/bin/env bash
# Builds model.plan from the ONNX file of wav2vec_general_v2 (about 5 minutes), and compares its answers with that file's.
# Run it on a machine with the GPU type that will serve it: a plan runs on no other, nor with another TensorRT version.
# It takes trtexec from the TensorRT container of the Triton release that the Dockerfile names, as both have the same
# TensorRT version. TRITON_RELEASE=YY.MM names another release; TRTEXEC=FILE takes a trtexec of this machine instead.
# Both versions are the newest that version_policy names: of this model the one to build, of wav2vec_general_v2 the source.
set -euo pipefail

# Length of the sound in samples, 16,000 a second: 0.1 s, 10 s and 30 s. The plan accepts min to max, and is tuned for opt.
min_samples=1600
opt_samples=160000
max_samples=480000

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(dirname "$here")/wav2vec_general_v2
dockerfile=$(dirname "$here")/../Dockerfile

fail() { # message, what to do
    printf 'build-plan: %s\n  %s\n' "$1" "$2" >&2
    exit 1
}

newest() { # model folder
    local versions
    versions=$(sed -n 's/^version_policy:.*versions: *\[\([0-9, ]*\)\].*/\1/p' "$1/model.yaml" | tr ', ' '\n\n' | sort -n | tail -1)
    [[ -n $versions ]] || fail "no version in version_policy of $1/model.yaml" 'Write it on one line: version_policy: { specific: { versions: [1] } }'
    printf '%s' "$versions"
}

version=$(newest "$here")
source_version=$(newest "$source")
onnx=$source/$source_version/model.onnx
golden=$source/golden/$source_version
plan=$here/$version/model.plan

[[ -s $onnx ]] || fail "$onnx is missing" 'Export it first: npm run trace -- --models wav2vec_general_v2'
[[ ! -e $plan ]] || fail "$plan is there already" "Remove it to build it again. Once published, a version must not change: name the next one in version_policy of $here/model.yaml."
command -v nvidia-smi >/dev/null || fail 'no NVIDIA driver (nvidia-smi) here' 'Run this on a machine with the GPU type that will serve the plan.'
command -v python3 >/dev/null || fail 'no python3 on PATH' 'It compares the plan with the ONNX file: install Python 3.'

max_batch=$(sed -n 's/^max_batch_size: *\([0-9][0-9]*\).*/\1/p' "$here/model.yaml")
[[ -n $max_batch ]] || fail "no max_batch_size in $here/model.yaml" 'It says for which batch size to build: max_batch_size: 8'

# Built aside and renamed when whole, so that a broken build is never taken for a plan.
work=$(mktemp -d "$here/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [[ -n ${TRTEXEC:-} ]]; then
    [[ -x $TRTEXEC ]] || fail "TRTEXEC=$TRTEXEC is no program" 'Give the path of a trtexec with the TensorRT version of the server.'
    by=$TRTEXEC
    onnx_there=$onnx
    work_there=$work
    run_trtexec() { "$TRTEXEC" "$@"; }
else
    command -v docker >/dev/null || fail 'docker is not on PATH' 'Install docker with the NVIDIA container toolkit, or set TRTEXEC to a trtexec with the TensorRT version of the server.'
    release=${TRITON_RELEASE:-$(sed -n 's/^ARG TRITON_RELEASE=\([0-9.]*\).*/\1/p' "$dockerfile" 2>/dev/null || true)}
    [[ -n $release ]] || fail "no Triton release: $dockerfile has no line ARG TRITON_RELEASE=..." 'Name it: TRITON_RELEASE=YY.MM ./build-plan.sh'
    by=nvcr.io/nvidia/tensorrt:$release-py3
    onnx_there=/onnx/model.onnx
    work_there=/plan
    # As the command, not the entry point: NVIDIA's entry point sets up what older drivers need.
    run_trtexec() {
        docker run --rm --gpus=1 --user "$(id -u):$(id -g)" \
            --volume "$(dirname "$onnx"):/onnx:ro" --volume "$work:/plan" "$by" trtexec "$@"
    }
fi

# Without TF32 the plan can be compared at the tolerance of the ONNX file.
run_trtexec "--onnx=$onnx_there" "--saveEngine=$work_there/model.plan" --skipInference --noTF32 \
    "--minShapes=input_values:1x$min_samples" \
    "--optShapes=input_values:${max_batch}x$opt_samples" \
    "--maxShapes=input_values:${max_batch}x$max_samples"
[[ -s $work/model.plan ]] || fail 'trtexec ended without a plan' 'Its messages above say why.'

# The golden requests of the ONNX model that the plan accepts.
compared=0
for request in "$golden"/traced-*.json; do
    [[ -e $request ]] || continue
    shape=$(python3 "$here/compare_plan.py" prepare "$request" "$work" "$min_samples" "$max_samples")
    [[ -n $shape ]] || continue
    run_trtexec "--loadEngine=$work_there/model.plan" "--shapes=input_values:$shape" --noTF32 --iterations=1 --duration=0 --warmUp=0 \
        "--loadInputs=input_values:$work_there/input" "--exportOutput=$work_there/output.json"
    python3 "$here/compare_plan.py" compare "$request" "$work/output.json" || fail "the plan's answers are not those of $onnx" 'No plan was written.'
    compared=$((compared + 1))
done
[[ $compared -gt 0 ]] || fail "$golden has no golden request of $min_samples to $max_samples samples" 'Make them: npm run trace -- --models wav2vec_general_v2'

mkdir -p "$here/$version"
printf '{ "onnx": "wav2vec_general_v2/%s/model.onnx", "sha256": "%s", "by": "%s", "compared": %d }\n' \
    "$source_version" "$(sha256sum "$onnx" | cut -d' ' -f1)" "${by##*/}" "$compared" >"$here/$version/model.plan.json"
mv "$work/model.plan" "$plan"
printf 'build-plan: %s is ready, %d golden requests answered as by %s. Publish it: npm run sync-models -- --models wav2vec_general_v1 --bucket s3://NAME/PREFIX\n' "$plan" "$compared" "$onnx"
