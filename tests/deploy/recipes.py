#!/usr/bin/env python3
"""deploy/recipes/: what each file tells tensord gives the pools that it promises, on hwloc's description
of the machine they are written for."""
import pathlib
import unittest

import service

try:
    import kubernetes_validate
    import yaml
except ImportError as error:
    service.skip(f"{error}: run deploy/setup.sh check")

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
MACHINE = {"HWLOC_SYNTHETIC": "node:2 core:8 pu:1", "HWLOC_THISSYSTEM": "0"}


class Recipes(unittest.TestCase):
    def pools(self, *args, **env):
        """name -> (cpus, streams, NUMA node)"""
        with service.Service(*args, env={**MACHINE, **env}) as running:
            found = running.call("GET", "/v1/pools").json["pools"]
        for pool in found:
            self.assertEqual(pool["warnings"], [], pool["name"])
        return {p["name"]: (p["cpus"], p["streams"], p["numa_node"]) for p in found}

    def test_compose(self): # RT-39
        wanted = {"latency": {"main": ("0-15", 4, -1)},
                  "throughput": {"node0": ("0-7", 1, 0), "node1": ("8-15", 1, 1)},
                  "split": {"main": ("0-3", 1, -1), "jobs": ("4-15", 3, -1)}}
        services = yaml.safe_load((DEPLOY / "recipes" / "compose.yaml").read_text())["services"]
        self.assertEqual(sorted(services), sorted(wanted))
        for name, recipe in services.items():
            base = recipe["extends"]
            path = (DEPLOY / "recipes" / base["file"]).resolve()
            self.assertIn(base["service"], yaml.safe_load(path.read_text())["services"])
            serve, listen, address, *args = recipe["command"]
            self.assertEqual((serve, listen, address), ("serve", "--listen", "0.0.0.0:8080"))
            with self.subTest(name):
                self.assertEqual(self.pools(*args), wanted[name])

    def test_systemd(self): # RT-39
        text = (DEPLOY / "recipes" / "latency.conf").read_text()
        name, value = text.split('Environment="')[1].split('"')[0].split("=", 1)
        self.assertEqual(self.pools(**{name: value}), {"main": ("0-15", 4, -1)})

    def patched(self, name):
        """The Deployment with the patch on it, and the patch's container."""
        patch = yaml.safe_load((DEPLOY / "recipes" / name).read_text())["spec"]["template"]["spec"]
        deployment = next(d for d in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if d["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        container, mine = pod["containers"][0], patch["containers"][0]
        self.assertEqual(mine["name"], container["name"], "a strategic merge goes by the name")
        mounts = container["volumeMounts"] + mine.get("volumeMounts", [])
        container.update(mine, volumeMounts=mounts)
        pod["volumes"] += patch.get("volumes", [])
        self.assertEqual({mount["name"] for mount in mounts}, {volume["name"] for volume in pod["volumes"]})
        kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)
        return mine

    def test_models(self):
        """The folder of models that each place gives is loaded by what it tells the server."""
        mine = self.patched("kubernetes-models.yaml")
        env = {e["name"]: e["value"] for e in mine["env"]}
        self.assertEqual(env["TENSORD_MODELS"], mine["volumeMounts"][0]["mountPath"])
        folder, _, options = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["tensord"]["volumes"][0].rpartition("}:")[2].partition(":")
        self.assertEqual((folder, options), ("/models", "ro"))
        self.assertIn("\nENV TENSORD_MODELS=/models\n", (DEPLOY / "Containerfile").read_text())
        self.assertIn("\nEnvironment=TENSORD_MODELS=/", (DEPLOY / "recipes" / "models.conf").read_text())
        with service.Service(env={**env, "TENSORD_MODELS": str(DEPLOY.parent / "examples/digits")}) as running:
            self.assertEqual([model["name"] for model in running.call("GET", "/v1/models").json["models"]], ["digits"])
            seven = (DEPLOY.parent / "examples/digits/seven.json").read_bytes()
            self.assertEqual(running.call("POST", "/v1/models/digits", seven).json["digit"], [7])

    def test_kubernetes(self):
        mine = self.patched("kubernetes-latency.yaml")
        self.assertEqual(mine["resources"]["requests"], mine["resources"]["limits"])
        env = {e["name"]: e["value"] for e in mine["env"]}
        self.assertEqual(self.pools(**env), {"main": ("0-15", 2, -1)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
