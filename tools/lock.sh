#!/usr/bin/env bash
# Pin everything that is installed, with hashes, for every supported Python and both architectures.
# Run it by `make lock` after a change of the dependencies in pyproject.toml.
# `UPGRADE=1 make lock` moves every pin to the newest release that the ranges allow.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
command -v "$uv" >/dev/null || {
  echo "lock: uv is not on PATH; fix: run \`make lock\`, or set UV=/path/to/uv" >&2
  exit 4
}

compile() { # OUTPUT ARGS...
  local out=requirements/$1
  shift
  echo "lock: $out"
  pin "$out" "$@"
}

pin() { # OUTPUT ARGS...
  local out=$1
  shift
  # Neither the index nor a directory of wheels that this machine is set to may reach a file.
  env -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS "$uv" pip compile --quiet \
    --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links ${UPGRADE:+--upgrade} \
    --no-emit-package railhead --no-emit-package railhead-diagnose \
    --no-emit-package railhead-accept --no-emit-package railhead-lab --output-file "$out" "$@"
}

# The largest set first; the others take its versions.
compile dev.txt pyproject.toml --extra dev
compile base.txt pyproject.toml --constraint requirements/dev.txt
compile deploy.txt pyproject.toml --extra deploy --constraint requirements/dev.txt
compile lab.txt distributions/lab/pyproject.toml --constraint requirements/dev.txt
compile aws.txt pyproject.toml --extra aws --constraint requirements/dev.txt
compile gcp.txt pyproject.toml --extra gcp --constraint requirements/dev.txt
compile nccl.txt pyproject.toml --extra nccl --constraint requirements/dev.txt
compile verify.txt pyproject.toml --extra verify --constraint requirements/dev.txt
compile build.txt requirements/build.in --constraint requirements/dev.txt
compile go.txt requirements/go.in
compile docs.txt requirements/docs.in --constraint requirements/dev.txt
compile lock.txt requirements/lock.in

# What the lab's training image holds. Its runs are on CPU: of CUDA's libraries, two gigabytes, it has
# one small stand-in (railhead/lab/artifacts/stubs.py).
training=railhead/lab/build/training
cuda=(cuda-toolkit cuda-bindings cuda-pathfinder triton)
cuda+=(nvidia-{cublas,cuda-cccl,cuda-crt,cuda-cupti,cuda-nvrtc,cuda-runtime,cudnn-cu13,cufft,cufile})
cuda+=(nvidia-{curand,cusolver,cusparse,cusparselt-cu13,nccl-cu13,nvjitlink,nvshmem-cu13,nvtx})
echo "lock: $training/requirements.txt"
pin "$training/requirements.txt" "$training/requirements.in" "${cuda[@]/#/--no-emit-package=}"

frameworks=railhead/lab/build/frameworks
echo "lock: $frameworks/requirements.txt"
pin "$frameworks/requirements.txt" "$frameworks/requirements.in"
