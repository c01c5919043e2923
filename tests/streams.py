"""Tests of calls that are cut over a pool's streams."""
import service

CPUS = ",".join(service.CPUS)
FIVE = min(5, 4 * len(service.CPUS)) # threads: four a CPU are the most


def pool_of(name, streams, threads, more=""):
    return "--pool", f"{name}={CPUS}:streams={streams}:threads={threads}{more}"


class StreamsTest(service.ServiceTest):
    """Its args have the pools one and two, of so many streams."""

    @classmethod
    def setUpClass(cls):
        """Without OpenMP (the thread sanitizer's build) a pool has one thread a stream."""
        super().setUpClass()
        cls.most = {name: cls.service.call("GET", "/v1/pools/" + name).json["threads"] for name in ("one", "two")}
        if cls.most["two"] < 2:
            service.skip("one thread: no streams")

    def parts(self, asked, batch, pool="two"):
        """In how many it is cut."""
        return max(min(asked, batch, self.most[pool]), 1)
