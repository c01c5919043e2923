#!/bin/sh
# Installs PyTorch (700 MiB, for CPUs) into a Python of its own, by default .deps/venv-torch, and has it judge
# every operator: tests/outside/torch.sh [-n CALLS] [-v] [OVERLOAD...]
set -eu
cd "$(dirname "$0")/../.."
venv=${TENSORD_TORCH_VENV:-.deps/venv-torch}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import numpy, torch' 2>/dev/null ||
    "$venv/bin/pip" install --quiet numpy torch --extra-index-url https://download.pytorch.org/whl/cpu
PYTHONPATH=tests exec "$venv/bin/python" tests/outside/by_torch.py "$@"
