#!/usr/bin/env python3
"""other_system.py SUITE WORK_DIR [PACKAGE...]: a fresh clone on a minimal Debian or Ubuntu of that name, PACKAGEs
installed: set-up, the
build that ./run does with warnings as errors, `meson install`; then, with the clone gone and without a
network, the installed program serves. Optimised less than ./run does it: the vector sources would take
minutes, and what differs between systems is packages, compilers and libraries."""
import pathlib
import sys
import tempfile

from roots import Stage, enter_namespace, system

CLONE = "/src"
BUILD = """--mount=type=cache,target=/root/.cache/ccache
    deploy/setup.sh build &&
    meson setup -Doptimization=1 -Dwerror=true build &&
    ./run --help >/dev/null && meson install -C build --no-rebuild --quiet && rm -rf /src"""


def main():
    enter_namespace()
    suite, work, *packages = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=work, prefix=f"{suite}-") as folder:
        stage = Stage(pathlib.Path(folder, "root"))
        system(suite, stage.root)
        stage.workdir = CLONE
        stage.copy(". .", {})
        if packages:
            stage.run(f"apt-get -q update && apt-get -q -y install --no-install-recommends {' '.join(packages)}")
        stage.run(BUILD)
        stage.workdir, stage.user = "/", "65532:65532"
        stage.entrypoint = ["/usr/local/bin/tensord", "serve", "--listen", "0.0.0.0:8080", "--insecure"]
        stage.healthcheck = ["/usr/local/lib/tensord/healthcheck"]
        stage.serve()


main()
