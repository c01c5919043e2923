"""Control groups of one's own, for the tests and figures of what a container grants: version 1 or 2, as
this machine has them. Making them takes root; where that is not possible, Unavailable says why.
"""
import os
import time

ROOT = "/sys/fs/cgroup"
V2 = os.path.exists(f"{ROOT}/cgroup.controllers")


class Unavailable(Exception):
    """No control group can be made here."""


class Group:
    """A new group for one controller; processes join it at their start (Service(groups=...))."""

    made = 0

    def __init__(self, controller, **files):
        """files: what to write, with dots as two underscores: cpuset__cpus="0"."""
        Group.made += 1
        parent = ROOT if V2 else f"{ROOT}/{controller}"
        self.path = f"{parent}/tensord-{os.getpid()}-{Group.made}"
        try:
            if V2:
                self._write(f"{ROOT}/cgroup.subtree_control", f"+{controller}")
            os.mkdir(self.path)
        except OSError as error:
            raise Unavailable(f"no {controller} group can be made: {error}") from None
        try:
            if controller == "cpuset" and not V2:
                with open(f"{parent}/cpuset.mems") as mems:
                    self.set(cpuset__mems=mems.read().strip())
            self.set(**files)
        except OSError as error:
            self.remove()
            raise Unavailable(f"no {controller} group can be set: {error}") from None

    @staticmethod
    def _write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def set(self, **files):
        for name, text in files.items():
            self._write(f"{self.path}/{name.replace('__', '.')}", str(text))

    def join(self):
        """Moves the calling process in."""
        self._write(f"{self.path}/cgroup.procs", str(os.getpid()))

    def throttled(self):
        """(periods, of them throttled)"""
        with open(f"{self.path}/cpu.stat") as file:
            stat = dict(line.split() for line in file)
        return int(stat["nr_periods"]), int(stat["nr_throttled"])

    def remove(self):
        for _ in range(100): # the last process may be about to leave
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _quota(cpus):
    if V2:
        return {"cpu__max": f"{int(cpus * 1e5)} 100000" if cpus else "max 100000"}
    return {"cpu__cfs_period_us": 100000, "cpu__cfs_quota_us": int(cpus * 1e5) if cpus else -1}


class Quota(Group):
    """So many CPUs' worth of time."""

    def __init__(self, cpus):
        super().__init__("cpu", **_quota(cpus))

    def move(self, cpus):
        self.set(**_quota(cpus))

    def prefer(self):
        """Before other work on the machine, within the quota."""
        self.set(**({"cpu__weight": 10000} if V2 else {"cpu__shares": 262144}))


class Cpuset(Group):
    def __init__(self, cpus):
        super().__init__("cpuset", cpuset__cpus=cpus)

    def move(self, cpus):
        self.set(cpuset__cpus=cpus)


class Memory(Group):
    def __init__(self, limit):
        super().__init__("memory", **({"memory__max": limit} if V2 else {"memory__limit_in_bytes": limit}))
