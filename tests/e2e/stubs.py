"""The messages and stubs of the service, made by protoc when this is loaded.

Made of the repository's own protos, and of those of health and reflection
that Debian's grpc-proto brings, by Debian's protoc: a client that is not ours.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_STANDARD = "/usr/share/grpc-proto/grpc"
# Folders of protos, each flat, and what to take of them.
_PROTOS = [
    (ROOT + "/proto", ["inference.proto", "worker.proto", "admin.proto"]),
    (ROOT + "/proto/google/rpc", ["status.proto"]),
    (_STANDARD + "/health/v1", ["health.proto"]),
    (_STANDARD + "/reflection/v1alpha", ["reflection.proto"]),
]


def _make():
    out = tempfile.mkdtemp(prefix="phalanx-stubs-")
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    for folder, names in _PROTOS:
        subprocess.run(
            [
                "protoc",
                "-I" + folder,
                "--python_out=" + out,
                "--grpc_out=" + out,
                "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin",
                *names,
            ],
            check=True,
        )
    sys.path.insert(0, out)


_make()

# pylint: disable=wrong-import-position
import admin_pb2 as admin  # noqa: E402,F401
import admin_pb2_grpc as admin_rpc  # noqa: E402,F401
import health_pb2 as health  # noqa: E402,F401
import health_pb2_grpc as health_rpc  # noqa: E402,F401
import inference_pb2 as inference  # noqa: E402,F401
import inference_pb2_grpc as inference_rpc  # noqa: E402,F401
import reflection_pb2 as reflection  # noqa: E402,F401
import reflection_pb2_grpc as reflection_rpc  # noqa: E402,F401
import status_pb2 as rpc_status  # noqa: E402,F401
