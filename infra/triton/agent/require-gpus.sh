# Refuses to start Triton in a container that sees too few GPUs: its models would run on the CPU, at the price of a GPU.
# The first lines of the command set `gpus`, the GPUs of the pod, and `least`, the number below which the start fails.
#
# The container runtime mounts nvidia-smi into containers with GPUs if their NVIDIA_DRIVER_CAPABILITIES contain
# `utility`: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
# (2026-11-27), "Driver Capabilities". NVIDIA's images set it. docs/decisions.md has the reason why a container without
# nvidia-smi starts.
#
# MIG devices have lines of their own below that of their GPU, and a pod may get several of one GPU:
# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/getting-started-with-mig.html (2026-11-27). Lines of both
# kinds count, so that no pod with enough devices is refused.
if command -v nvidia-smi >/dev/null; then
  list=$(nvidia-smi --list-gpus 2>&1)
  seen=$(printf '%s\n' "$list" | grep -c -E '^ *(GPU|MIG) .*UUID')
  if [ "$seen" -lt "$gpus" ]; then
    answer=$(printf '%s' "${list:-nvidia-smi lists none}" | tr '\n' ' ')
    echo "This container sees $seen of $gpus GPUs: $answer; see docs/runbook.md#tritongpumissing" >&2
    [ "$seen" -ge "$least" ] || exit 1
  fi
else
  echo "Cannot count the GPUs of this container, which should be $gpus: it has no nvidia-smi; see docs/runbook.md#tritongpumissing" >&2
fi
