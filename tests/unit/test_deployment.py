"""compose.yaml and the manifests of Kubernetes: what they promise of safety holds, and what they name exists."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plumbline.assembly import _DRAIN_SECONDS as ROWS_DRAIN_SECONDS
from plumbline.cli.main import main
from plumbline.ground.settings import Settings, variable_name
from tests.reading.dockerfile import read_stages

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
# What it may take to close everything once nothing is under way: a model may just be loading.
_CLOSING_SECONDS = 15
# The variable of a vendor is read by its name where the setting is empty.
_SETTINGS = {*map(variable_name, Settings.model_fields), "DASHSCOPE_API_KEY"}
_OURS = re.compile(r"\b(?:PLUMBLINE|DASHSCOPE)_[A-Z_]+\b")

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
IMAGE = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))[-1]


def documents() -> Iterator[dict[str, Any]]:
    for path in sorted(MANIFESTS.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def of_kind(kind: str, name: str = "plumbline") -> dict[str, Any]:
    (found,) = [each for each in documents() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in documents() if each["kind"] == "Deployment"]


def files_of_deployment() -> list[Path]:
    return [ROOT / "compose.yaml", ROOT / "Dockerfile", ROOT / "deploy" / "make-secrets.sh", *MANIFESTS.glob("*.yaml")]


@pytest.mark.parametrize("path", files_of_deployment(), ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    assert set(_OURS.findall(path.read_text(encoding="utf-8"))) <= _SETTINGS


def test_every_command_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [each["command"] for each in SERVICES.values() if str(each["image"]).startswith("plumbline")
                and "command" in each]  # fmt: skip
    commands += [pod["containers"][0]["command"] for pod in pods()]
    commands.append(IMAGE.last("CMD").words)

    for program, command, *_ in commands:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert (program, ended.value.code) == ("plumbline", 0)
    assert len(commands) == 4


# --- compose


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_no_rights_no_writable_root_and_bounds(name: str) -> None:
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & service.keys()
    assert service["user"].split(":")[0] not in ("0", "root")
    assert limits.keys() >= {"cpus", "memory", "pids"}


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_to_a_version(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")

    assert re.match(r"v?\d+\.\d+", tag), tag


@pytest.mark.parametrize("name", SERVICES)
def test_only_loopback_is_published(name: str) -> None:
    assert [port for port in SERVICES[name].get("ports", []) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_looked_after(name: str) -> None:
    check = SERVICES[name]["healthcheck"]

    assert (
        check == {"disable": True} if name == "worker" else {"test", "interval", "timeout", "retries"} <= check.keys()
    )


def test_only_postgresql_is_cut_off_and_only_docker_is_not_mounted() -> None:
    mounts = [str(volume) for service in SERVICES.values() for volume in service.get("volumes", [])]

    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if service["networks"] == ["inside"]] == ["postgres"]
    assert [mount for mount in mounts if "docker.sock" in mount] == []
    assert [mount for mount in mounts if mount.startswith((".", "/")) and not mount.endswith(":ro")] == []


@pytest.mark.skipif(not (ROOT / "deploy" / "prometheus.yml").exists(), reason="nothing to scrape in this checkout")
def test_every_file_that_is_mounted_exists() -> None:
    mounts = [volume for service in SERVICES.values() for volume in service.get("volumes", []) if volume[0] == "."]

    assert len(mounts) == 4
    assert [mount for mount in mounts if not (ROOT / mount.split(":")[0]).exists()] == []


def test_no_secret_is_written_down() -> None:
    secrets = COMPOSE["secrets"].values()
    environments = [value for service in SERVICES.values() for value in service.get("environment", {}).items()]

    assert all(secret["file"].startswith("deploy/secrets/") for secret in secrets)
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert [name for name, _ in environments if re.search(r"KEY|TOKEN|PASSWORD(?!_FILE$|__FILE$)", name)] == []


def test_the_secrets_are_made_once_for_their_reader_alone(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((ROOT / "deploy" / "make-secrets.sh").read_bytes())

    def made() -> dict[str, bytes]:
        subprocess.run(["/bin/sh", str(script)], check=True, capture_output=True, env={"PATH": os.environ["PATH"]})
        return {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}

    first, second = made(), made()
    environment = dict(line.split("=", 1) for line in first["plumbline.env"].decode().splitlines() if "=" in line[1:]
                       and not line.startswith("#"))  # fmt: skip
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}

    assert first == second
    assert first.keys() == named | {"plumbline.env"}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert len({value for name, value in first.items() if name != "plumbline.env"}) == len(named)
    settings = Settings(
        api_keys=environment["PLUMBLINE_API_KEYS"],
        database_url=environment["PLUMBLINE_DATABASE_URL"],
    )
    assert settings.api_keys[1].get_secret_value() == first["plumbline_metrics_key"].decode()


def test_a_service_is_waited_for_as_long_as_it_needs_to_end() -> None:
    service = SERVICES["plumbline"]
    drain = int(service["environment"]["PLUMBLINE_DRAIN_SECONDS"])

    assert int(service["stop_grace_period"].removesuffix("s")) >= drain + ROWS_DRAIN_SECONDS + _CLOSING_SECONDS


# --- kubernetes


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: pod["containers"][0]["name"])
def test_a_pod_has_no_rights_no_writable_root_and_bounds(pod: dict[str, Any]) -> None:
    context = pod["securityContext"]
    (container,) = pod["containers"]
    user, group = map(int, IMAGE.last("USER").value.split(":"))

    assert (context["runAsNonRoot"], context["runAsUser"], context["runAsGroup"]) == (True, user, group)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted.values()) == {"/tmp", IMAGE.last("VOLUME").value}  # noqa: S108
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"])


def test_probes_ask_routes_that_need_no_key_at_the_port_that_is_served(document: dict[str, Any]) -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert set(paths.values()) <= document["paths"].keys()
    assert container["ports"] == [{"name": "http", "containerPort": int(IMAGE.last("EXPOSE").value)}]
    # A pod without its key must not start; the image alone then serves itself.
    assert container["command"] == ["0.0.0.0" if word == "auto" else word for word in IMAGE.last("CMD").words]
    assert of_kind("Service")["spec"]["ports"][0]["targetPort"] == "http"


def test_a_pod_is_given_the_time_that_it_takes_to_end() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    pause = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(of_kind("ConfigMap")["data"]["PLUMBLINE_DRAIN_SECONDS"])
    worker = of_kind("Deployment", "plumbline-worker")["spec"]["template"]["spec"]

    assert pod["terminationGracePeriodSeconds"] >= pause + drain + ROWS_DRAIN_SECONDS + _CLOSING_SECONDS
    assert worker["terminationGracePeriodSeconds"] >= ROWS_DRAIN_SECONDS + _CLOSING_SECONDS


def test_what_selects_pods_selects_those_that_there_are() -> None:
    labels = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        of_kind("Service")["spec"]["selector"],
        of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind("Deployment")["spec"]["selector"]["matchLabels"],
        *(of_kind("NetworkPolicy", f"plumbline-{way}")["spec"]["podSelector"]["matchLabels"] for way in ("in", "out")),
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)
    assert of_kind("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "plumbline"


def test_what_is_applied_is_all_but_the_form_of_the_secret() -> None:
    applied = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]

    assert {path.name for path in MANIFESTS.iterdir()} == {*applied, "kustomization.yaml", "secret.example.yaml"}
