# Triton with the flags that this package relies on.
#
#   server    holds no models: it serves a mounted folder or a bucket    docker build .
#   bundled   holds build/repository, which `npm run export` makes       docker build --target bundled .

# The Triton release, named here and nowhere else. NVIDIA's release page of Triton 2.75.0 (17 November 2026), the latest
# at the time, calls it "corresponding to NGC container 26.11". docs/docker.md says how to change it.
ARG TRITON_RELEASE=26.11

FROM nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-py3 AS base

# Models of an S3 repository are downloaded into it. Triton wants it there and empty.
ENV TRITON_AWS_MOUNT_DIRECTORY=/var/cache/triton
RUN install --directory --owner=1000 --group=1000 --mode=0700 "$TRITON_AWS_MOUNT_DIRECTORY"

# The base image's own user triton-server, by number: "must not run as root" can be checked of a number only.
USER 1000:1000

# HTTP, gRPC, metrics
EXPOSE 8000 8001 8002

# tritonserver opens its HTTP port when the models of the start are loaded: the start period has to cover that.
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 \
    CMD ["curl", "--fail", "--silent", "--show-error", "--output", "/dev/null", "http://127.0.0.1:8000/v2/health/ready"]

# At SIGTERM it takes no new requests and gives open ones --exit-timeout-secs. NVIDIA's entry point ends in `exec "$@"`,
# so the signal reaches it.
STOPSIGNAL SIGTERM

# A restarted container comes up with every model (--load-model=*), and a publisher can reload them (explicit). Neither
# a bad model nor one that is loading takes the other models out of service. A load request may carry a model, which is a
# program: without the key nothing answers but inference, metadata and health. Where no key is given, a random one is made.
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh", "/bin/sh", "-c", \
    "key=${TRITON_MODEL_CONTROL_KEY:-$(od -An -N24 -tx1 /dev/urandom | tr -dc 0-9a-f)}; \
unset TRITON_MODEL_CONTROL_KEY; \
guard=model-repository,shared-memory,statistics,trace,logging:triton-model-control-key=$key; \
exec \"$@\" --http-restricted-api=\"$guard\" --grpc-restricted-protocol=\"$guard\"", "start", "tritonserver", \
    "--model-control-mode=explicit", \
    "--load-model=*", \
    "--exit-on-error=false", \
    "--strict-readiness=false", \
    "--exit-timeout-secs=30"]

# docker run IMAGE --model-repository=s3://NAME/PREFIX serves another one.
CMD ["--model-repository=/models"]

FROM base AS bundled
# Owned by root: the server reads its models and cannot change them.
COPY build/repository /models

# Last, so that it is what `docker build .` makes.
FROM base AS server
