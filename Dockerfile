# Triton with the flags that this package relies on.
#
#   server    contains no models: serves a mounted folder or a bucket     docker build .
#   bundled   contains build/repository, which `npm run export` writes    docker build --target bundled .
#   agent     the release agent, for compose.yaml                         docker build --target agent .

# The Triton release, set only here. NVIDIA's release page of Triton 2.75.0 (17 November 2026), then the latest release,
# calls it "corresponding to NGC container 26.11". docs/docker.md describes how to change it.
ARG TRITON_RELEASE=26.11

FROM nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-py3 AS base

# Triton downloads the models of an S3 repository into this folder, which must exist and be empty at its start.
ENV TRITON_AWS_MOUNT_DIRECTORY=/var/cache/triton
RUN install --directory --owner=1000 --group=1000 --mode=0700 "$TRITON_AWS_MOUNT_DIRECTORY"

# For models that compute on the CPU; without them a model beside a GPU was up to 15 times slower (docs/decisions.md).
ENV OMP_WAIT_POLICY=PASSIVE
ENV GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184

# The base image's user triton-server, as a number, because Kubernetes can verify runAsNonRoot only for a numeric user.
USER 1000:1000

# HTTP, gRPC, metrics
EXPOSE 8000 8001 8002

# tritonserver opens its HTTP port only after the initial models are loaded, so the start period must cover the loading.
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 \
    CMD ["curl", "--fail", "--silent", "--show-error", "--output", "/dev/null", "http://127.0.0.1:8000/v2/health/ready"]

# On SIGTERM tritonserver rejects new requests and gives open requests --exit-timeout-secs to finish. NVIDIA's entry
# point ends in `exec "$@"`, so tritonserver receives the signal.
STOPSIGNAL SIGTERM

# --load-model=* loads every model after a restart; explicit mode lets a publisher reload models. With the next two
# flags, a model that fails to load or is still loading does not take the other models out of service. A load request
# can contain a model, which is a program; without the key Triton therefore answers only inference, metadata and health
# requests. If no key is set, a random one is generated. The stack limit is that of
# RAISE_STACK_LIMIT (src/triton/serving.ts).
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh", "/bin/sh", "-c", \
    "key=${TRITON_MODEL_CONTROL_KEY:-$(od -An -N24 -tx1 /dev/urandom | tr -dc 0-9a-f)}; \
unset TRITON_MODEL_CONTROL_KEY; \
read -r _ kib _ </proc/meminfo; stack=$((kib * 3 / 4)); test \"$stack\" -lt 16777216 || stack=16777216; \
ulimit -S -s \"$stack\" || { ulimit -S -s \"$(ulimit -H -s)\"; \
echo \"The stack limit is only $(ulimit -s) KiB, not $stack, so a large HTTP form can end Triton: raise the hard limit, in Docker with --ulimit stack=-1\" >&2; }; \
guard=model-repository,shared-memory,statistics,trace,logging:triton-model-control-key=$key; \
exec \"$@\" --http-restricted-api=\"$guard\" --grpc-restricted-protocol=\"$guard\"", "start", "tritonserver", \
    "--model-control-mode=explicit", \
    "--load-model=*", \
    "--exit-on-error=false", \
    "--strict-readiness=false", \
    "--exit-timeout-secs=30"]

# docker run IMAGE --model-repository=s3://NAME/PREFIX serves another repository.
CMD ["--model-repository=/models"]

FROM base AS bundled
# Owned by root, so that the server can read its models but not change them.
COPY build/repository /models

# The image of the agent in the pods of a stack (infra/triton/image.ts).
FROM public.ecr.aws/docker/library/node:24.20.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6 AS node

FROM node AS agent-program
WORKDIR /package
COPY package.json package-lock.json tsconfig.json ./
COPY infra infra
COPY scripts scripts
COPY src src
# Installs the modules of the package, and writes build/agent.cjs.
RUN --mount=type=cache,target=/root/.npm node scripts/run.mjs export --agent

FROM node AS agent
COPY --from=agent-program /package/build/agent.cjs /package/infra/triton/agent/supervise.sh /opt/agent/

# The last stage, which makes it the default of `docker build .`.
FROM base AS server
