#!/usr/bin/env python3
"""The Kubernetes and compose files: the former against Kubernetes' own schemas, both against what
pinning and draining need, which no schema knows."""
import pathlib
import re
import sys
import unittest

try:
    import kubernetes_validate
    import yaml
except ImportError as error:
    print(f"skipped: {error}: run deploy/setup.sh check")
    sys.exit(77)

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
DRAIN_S = 30  # the server's default


def size(text):
    """Bytes of Kubernetes' 512Mi."""
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi|)", str(text)).groups()
    return int(number) << {"": 0, "Ki": 10, "Mi": 20, "Gi": 30}[unit]


class Kubernetes(unittest.TestCase):
    def setUp(self):
        documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
        self.documents = {d["kind"]: d for d in documents}
        self.assertEqual(len(documents), len(self.documents))
        self.pod = self.documents["Deployment"]["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_schemas(self):
        for version in ("1.29", kubernetes_validate.latest_version()):
            for document in self.documents.values():
                kubernetes_validate.validate(document, version, strict=True)

    def test_a_schema_violation_is_found(self):
        self.container["resources"]["limits"] = "two"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(
                self.documents["Deployment"], kubernetes_validate.latest_version(), strict=True)

    def test_static_cpu_manager_gives_whole_cores(self):
        for container in self.pod["containers"] + self.pod.get("initContainers", []):
            resources = container["resources"]
            self.assertEqual(resources["requests"], resources["limits"])
            self.assertIn("memory", resources["limits"])
            self.assertRegex(str(resources["limits"]["cpu"]), r"^[1-9][0-9]*$")

    def test_memory_is_bounded_within_the_limit(self):
        """What clients may make the server hold, by default half of the limit, and what they may leave in
        shared memory fit with a quarter to spare."""
        limit = size(self.container["resources"]["limits"]["memory"])
        env = {e["name"]: e["value"] for e in self.container.get("env", [])}
        budget = size(env["TENSORD_MEMORY"]) if "TENSORD_MEMORY" in env else limit // 2
        volumes = sum(size(v["emptyDir"]["sizeLimit"]) for v in self.pod["volumes"]
                      if v.get("emptyDir", {}).get("medium") == "Memory")
        self.assertGreater(volumes, 0)
        self.assertLessEqual(budget + volumes, limit * 3 // 4)

    def test_probes(self):
        port = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        for probe, path in (("startupProbe", "/v2/health/ready"),
                            ("readinessProbe", "/v2/health/ready"),
                            ("livenessProbe", "/v2/health/live")):
            get = self.container[probe]["httpGet"]
            self.assertEqual(get["path"], path)
            self.assertIn(get["port"], port)

    def test_drains_before_it_is_killed(self):
        pre_stop = int(self.container["lifecycle"]["preStop"]["exec"]["command"][-1])
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], pre_stop + DRAIN_S)

    def test_secrets(self):
        """Tokens and TLS, of secrets that the server's group may read, which is asked in TLS; compose has the same."""
        args = self.container["args"]
        self.assertNotIn("--insecure", args)
        mounts = {m["mountPath"]: m for m in self.container["volumeMounts"]}
        volumes = {v["name"]: v for v in self.pod["volumes"]}
        for option, file in (("--tokens", "tokens"), ("--tls-cert", "tls.crt"), ("--tls-key", "tls.key")):
            path = pathlib.PurePath(args[args.index(option) + 1])
            self.assertEqual(path.name, file)
            mount = mounts[str(path.parent)] # a whole volume: a subPath would never change
            self.assertEqual((mount["readOnly"], mount.get("subPath")), (True, None))
            self.assertEqual(volumes[mount["name"]]["secret"]["defaultMode"], 0o440)
        self.assertEqual(self.pod["securityContext"]["fsGroup"], self.pod["securityContext"]["runAsGroup"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.container[probe]["httpGet"]["scheme"], "HTTPS")
        compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        self.assertEqual(compose["services"]["tensord"]["environment"]["TENSORD_TOKENS"], "/run/secrets/tokens")
        self.assertIn("tokens", compose["secrets"])
        self.assertNotIn("--insecure", compose["services"]["tensord"]["command"])
        over = yaml.safe_load((DEPLOY / "compose.tls.yaml").read_text())
        self.assertNotIn("healthcheck", over["services"]["tensord"]) # the image's own speaks TLS
        for name in over["services"]["tensord"]["secrets"]:
            self.assertIn(f"/run/secrets/{name}", over["services"]["tensord"]["environment"].values())
            self.assertIn(name, over["secrets"])

    def test_hardened(self):
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])
        self.assertEqual(self.pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
        self.assertFalse(self.pod["automountServiceAccountToken"])
        security = self.container["securityContext"]
        self.assertFalse(security["allowPrivilegeEscalation"])
        self.assertTrue(security["readOnlyRootFilesystem"])
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
        user = re.search(r"^USER (\d+):(\d+)$", (DEPLOY / "Containerfile").read_text(), re.M)
        self.assertEqual((str(self.pod["securityContext"]["runAsUser"]),
                          str(self.pod["securityContext"]["runAsGroup"])), user.groups())

    def test_shared_memory(self):
        mounts = {m["mountPath"]: m["name"] for m in self.container["volumeMounts"]}
        volumes = {v["name"]: v for v in self.pod["volumes"]}
        self.assertEqual(volumes[mounts["/dev/shm"]]["emptyDir"]["medium"], "Memory")

    def test_service_selects_the_pods(self):
        service = self.documents["Service"]["spec"]
        labels = self.documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(service["selector"].items(), labels.items())
        self.assertIn(service["ports"][0]["targetPort"],
                      [p["name"] for p in self.container["ports"]])


class Compose(unittest.TestCase):
    def setUp(self):
        self.service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["tensord"]

    def test_cores(self):
        self.assertRegex(self.service["cpuset"], r"^\d+(-\d+)?(,\d+(-\d+)?)*$")

    def test_builds_from_the_containerfile(self):
        build = self.service["build"]
        self.assertTrue((DEPLOY / build["context"] / build["dockerfile"]).is_file())

    def test_drains_before_it_is_killed(self):
        self.assertGreater(int(self.service["stop_grace_period"].removesuffix("s")), DRAIN_S)

    def test_hardened(self):
        self.assertTrue(self.service["read_only"])
        self.assertEqual(self.service["cap_drop"], ["ALL"])
        self.assertIn("no-new-privileges:true", self.service["security_opt"])
        self.assertEqual([port.partition(":")[0] for port in self.service["ports"]], ["127.0.0.1"])


if __name__ == "__main__":
    unittest.main()
