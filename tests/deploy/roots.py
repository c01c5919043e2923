"""Root file systems of Debian and Ubuntu, made and run in without a container engine: one mmdebstrap,
then bubblewrap. What the host needs to reach its package mirrors (apt's sources and Acquire settings,
pip's settings, certificates) goes along; of its caches, only the compiler's, and only where a step
mounts one. Root is needed: apt in the sandbox changes owners."""
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST_CA = pathlib.Path(os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or
                       "/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = re.compile(r"(https?|no)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY"
                       r"|DEFAULT_TIMEOUT)", re.IGNORECASE)
SUITES = {"bookworm": "debian", "trixie": "debian", "noble": "ubuntu"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def host_sources(suite):
    files = [pathlib.Path("/etc/apt/sources.list"),
             *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*.list")),
             *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"))]
    return [f for f in files if f.is_file() and re.search(rf"(?<![\w-]){suite}\b", f.read_text())]


def bootstrap(suite, target, *sources):
    """A minimal root: mmdebstrap's completed process, with what it said."""
    acquire = subprocess.run(["apt-config", "dump", "Acquire"], check=True, text=True,
                             capture_output=True).stdout.splitlines()
    wanted = re.compile(r"Acquire::(Check-|Retries|ForceIPv|https?::(proxy|timeout|CaInfo))", re.I)
    options = [f"--aptopt={line}" for line in acquire if wanted.match(line)]
    return subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=apt",
                           *options, suite, target, *sources], stderr=subprocess.PIPE, text=True)


def debian(suite, target):
    """A root like debian:SUITE-slim's, from the host's own mirrors."""
    made = bootstrap(suite, target, *host_sources(suite))
    print(made.stderr, end="")
    made.check_returncode()


def system(suite, target):
    """The same for a suite that the host may not be of: from its mirrors by that name, if they are of
    the same distribution, else from mmdebstrap's default. Skips where neither has it."""
    host = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    own, kind = host.get("VERSION_CODENAME", "none").strip('"'), SUITES[suite]
    keyring = pathlib.Path(f"/usr/share/keyrings/{kind}-archive-keyring.gpg")
    if not keyring.exists():
        skip(f"no {keyring.name}, which {kind}'s packages are signed with")
    sources = []
    if host["ID"].strip('"') == kind:
        for i, file in enumerate(host_sources(own)):
            sources.append(target.parent / f"{i}{file.suffix}")
            sources[-1].write_text(re.sub(rf"(?<![\w-]){own}\b", suite, file.read_text()))
    made = bootstrap(suite, target, "--components=main,universe" if kind == "ubuntu" else "--components=main", *sources)
    if made.returncode:
        skip(f"no {kind} {suite} to be had from the mirrors: {' '.join(made.stderr.split())[:200]}")


ISA = "GET /v1/isa HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
BODY = '{"input":[[1.5,3]],"weight":[[3,3]],"dtype":"FP32","kernel":"onednn"}'
LINEAR = ("POST /v1/ops/linear HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n"
          f"Content-Length: {len(BODY)}\\r\\n\\r\\n{BODY}")


class Stage:
    """A root file system and what the instructions so far have set for it."""

    def __init__(self, root):
        self.root, self.workdir, self.user = root, "/", "0:0"
        self.env = {"PATH": PATH}
        self.entrypoint, self.cmd, self.healthcheck = [], [], []

    def sandbox(self, *options, writable=True):
        env = dict(self.env, HOME="/root", LANG="C.UTF-8")
        return ["bwrap", "--bind" if writable else "--ro-bind", str(self.root), "/",
                "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys", "--unshare-pid",
                "--unshare-ipc", "--die-with-parent", "--clearenv", *options,
                *(word for pair in env.items() for word in ("--setenv", *pair))]

    def run(self, argument):
        network = [word for name, value in os.environ.items() if PASSED_ON.fullmatch(name)
                   for word in ("--setenv", name, value)]
        for path in ("/etc/resolv.conf", "/etc/pip.conf"):
            network += ["--ro-bind-try", path, path]
        if HOST_CA.exists():
            network += ["--ro-bind", str(HOST_CA), "/run/host-ca.crt",
                        "--setenv", "PIP_CERT", "/run/host-ca.crt"]
        while match := re.match(r"--mount=type=cache,target=(\S+)\s+", argument):
            if match[1].endswith("/ccache") and (cache := compiler_cache()):
                network += ["--bind", cache, match[1]]
            argument = argument[match.end():]
        subprocess.run([*self.sandbox("--cap-add", "ALL", *network), "--chdir", self.workdir,
                        "/bin/sh", "-c", argument], check=True, stdin=subprocess.DEVNULL)

    def copy(self, argument, stages):
        *sources, target = argument.split()
        context, ignored = ROOT, (ROOT / ".dockerignore").read_text().split()
        if sources[0].startswith("--from="):
            context, ignored = stages[sources.pop(0).removeprefix("--from=")].root, []
        path = self.root / os.path.join(self.workdir, target).lstrip("/")
        for source in sources:
            found = context / source.lstrip("/")
            if found.is_dir():
                shutil.copytree(found, path, symlinks=True, dirs_exist_ok=True, ignore=lambda d, n: [
                    name for name in n if pathlib.Path(d) == context and
                    any(fnmatch.fnmatch(name, pattern) for pattern in ignored)])
            else:
                into = path / found.name if target.endswith("/") else path
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, into)

    def serve(self):
        """Serves as the image would; the shell inside sees to the order of things."""
        uid, gid = self.user.split(":")
        options = ["--unshare-net", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm", "--tmpfs", "/run"]
        user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all"]
        script = f"""
            {shlex.join(self.entrypoint + self.cmd)} & server=$!
            for try in $(seq 400); do
                {shlex.join(self.healthcheck)} 2>/dev/null && break
                kill -0 $server && [ $try -lt 400 ] && sleep 0.05 || exit 1
            done
            for request in {shlex.quote(LINEAR)} {shlex.quote(ISA)}; do
                exec 3<>/dev/tcp/127.0.0.1/8080
                printf "$request" >&3
                cat <&3
                exec 3>&-
            done
            grep ^Uid: /proc/$server/status
            kill -TERM $server && wait $server && echo drained"""
        done = subprocess.run(
            [*self.sandbox(*options, "--cap-add", "ALL", writable=False), *user, "bash", "-c",
             script], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        said = done.stdout.decode()
        print(said, done.stderr.decode(), sep="")
        done.check_returncode()
        computed, _, rest = said.partition("HTTP/1.1 200")[2].partition("HTTP/1.1")
        assert '{"out":[[13.5]]' in computed, f"oneDNN does not compute: {computed}"
        status, _, rest = (f"HTTP/1.1{rest}").partition("\r\n")
        assert status.startswith("HTTP/1.1 200"), status
        body, _, tail = rest.partition("\r\n\r\n")[2].partition("Uid:")
        assert json.loads(body)["current"], "no level in use"
        assert set(tail.split()[:4]) == {uid} and uid != "0", "the image's user does not serve"
        assert tail.split()[-1] == "drained", "SIGTERM did not end in exit 0"


def compiler_cache():
    if shutil.which("ccache"):
        cache = subprocess.run(["ccache", "--get-config", "cache_dir"], text=True,
                               capture_output=True).stdout.strip()
        return cache if os.path.isdir(cache) else None
    return None


def enter_namespace():
    """Whatever is mounted from here on is gone with this process, however it ends."""
    if os.geteuid() != 0:
        skip("apt in a sandbox needs root")
    for tool in ("bwrap", "mmdebstrap"):
        if not shutil.which(tool):
            skip(f"no {tool} here: run deploy/setup.sh check")
    if "TENSORD_IN_NAMESPACE" not in os.environ:
        os.environ["TENSORD_IN_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation=private", "--pid", "--fork",
                              "--kill-child", "--mount-proc", sys.executable, *sys.argv])
