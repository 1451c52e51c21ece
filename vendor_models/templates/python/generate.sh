#!/usr/bin/env bash
# Writes the Python code of the contract into generated/ beside this script. Its arguments are
# Meshwright's folder proto and the folder of grpc-proto. By default the former is that of the
# installation or the checkout. Debian's packages are protobuf-compiler, protobuf-compiler-grpc and
# grpc-proto.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
proto=$here/../../proto # if installed
[[ -d $proto ]] || proto=$here/../../../proto
proto=$(realpath -m -- "${1:-$proto}")
health=$(realpath -m -- "${2:-/usr/share/grpc-proto}")
if [[ ! -f $proto/meshwright/costmodel/v1/costmodel.proto || ! -f $health/grpc/health/v1/health.proto ]]; then
  echo "no contract in $proto, or no health service in $health: usage: generate.sh [MESHWRIGHT/proto [GRPC-PROTO]]" >&2
  exit 2
fi
cd -- "$here"
mkdir -p generated
protoc --proto_path="$proto" --python_out=generated --grpc_out=generated \
  --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" \
  meshwright/costmodel/v1/costmodel.proto
protoc --proto_path="$health" --python_out=generated --grpc_out=generated \
  --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" grpc/health/v1/health.proto
# The package of the health service would hide the library `grpc`, so its code has no package
# folder.
mv generated/grpc/health/v1/health_pb2.py generated/health_pb2.py
sed 's/^from grpc.health.v1 import/import/; s/import health_pb2 as/import health_pb2 as/' \
  generated/grpc/health/v1/health_pb2_grpc.py >generated/health_pb2_grpc.py
rm -r generated/grpc
