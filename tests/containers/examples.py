# SPDX-License-Identifier: BSD-2-Clause
"""Runs the examples of compose and of Kubernetes with podman, in bridge networks of the tests' network namespace."""

import os

import yaml

from tests.containers.podman import IMAGE, ROOT
from tests.packages.debian import check

DIRECTORY = os.path.join(ROOT, "packaging/container")
PINGS = 10
SECONDS = 300


def documents(name):
    with open(os.path.join(DIRECTORY, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def ended(podman, *containers):
    """Waits for the containers, and checks that server and client have received the data of each other."""
    shown = "output of the containers:\n"
    for container in containers:
        status = podman.command("wait", container, seconds=SECONDS).split()[-1]
        shown += podman.command("logs", container)
        check(status == "0", f"{container}: status {status}\n{shown}")
    check(shown.count("server ping data: rdma-ping-") == PINGS, shown)
    check(shown.count("ping data: rdma-ping-") == 2 * PINGS, shown)


def compose(podman):
    project = ("--project-name", "example", "--file", os.path.join(DIRECTORY, "compose.yaml"))
    try:
        podman.command(*project, "up", "--detach", program="podman-compose")
        ended(podman, "example_server_1", "example_client_1")
    finally:
        podman.command(*project, "down", "--timeout", "0", program="podman-compose")


def shared_memory(podman, daemon, server, client, network):
    """Three containers with these commands. Server and client have the network namespace of the daemon's container."""
    prefix = f"shared{podman.number()}-"
    start = ("run", "--detach", "--name")
    joined = ("--network", f"container:{prefix}daemon")
    podman.command(*start, prefix + "daemon", "--network", network, IMAGE, *daemon)
    podman.command("exec", prefix + "daemon", "sh", "-c", "until usrdma status >/dev/null 2>&1; do sleep 0.1; done",
                   seconds=SECONDS)
    podman.command(*start, prefix + "server", *joined, IMAGE, *server)
    podman.command(*start, prefix + "client", *joined, "--user", "1000:1000", IMAGE, *client)
    ended(podman, prefix + "server", prefix + "client")
    shown = podman.command("exec", prefix + "daemon", "usrdma", "status")
    check("\n  local messages_sent" in shown and "\n  roce " not in shown, shown)
    for name in ("client", "server", "daemon"):
        podman.command("rm", "--force", "--time", "0", prefix + name)


def compose_shared(podman):
    """podman-compose of Debian 12 lacks network_mode "service:NAME": the test starts the containers itself."""
    services = documents("compose-shared.yaml")[0]["services"]
    for name in ("server", "client"):
        check(services[name]["network_mode"] == "service:rdma", f"{services[name]}")
        check(services[name]["depends_on"] == {"rdma": {"condition": "service_healthy"}}, f"{services[name]}")
    check(services["rdma"]["healthcheck"]["test"] == ["CMD", "usrdma", "status"], f"{services['rdma']}")
    shared_memory(podman, *(services[name]["command"] for name in ("rdma", "server", "client")), "none")


def one_pod(podman):
    """podman of Debian 12 does not support sidecar containers; the test starts the containers itself."""
    spec = documents("kubernetes/one-pod.yaml")[0]["spec"]
    daemon, = spec["initContainers"]
    server, client = spec["containers"]
    check(daemon["restartPolicy"] == "Always", f"{daemon}")
    check(daemon["startupProbe"]["exec"]["command"] == ["usrdma", "status"], f"{daemon}")
    check({container["image"] for container in (daemon, server, client)} == {IMAGE}, f"{spec}")
    shared_memory(podman, daemon["command"], server["command"], client["command"], "none")


def two_pods(podman, name, affinity):
    """podman has one node and ignores the affinity and the service, whose name it resolves to the pod's address."""
    service, server, client = documents(name)
    check(service["spec"]["clusterIP"] == "None", f"{service}")
    check(service["spec"]["selector"] == server["metadata"]["labels"], f"{service}")
    rule, = client["spec"]["affinity"][affinity]["requiredDuringSchedulingIgnoredDuringExecution"]
    check(rule["topologyKey"] == "kubernetes.io/hostname", f"{rule}")
    check(rule["labelSelector"]["matchLabels"] == server["metadata"]["labels"], f"{rule}")
    network = f"pods{podman.number()}"
    podman.command("network", "create", network)
    try:
        podman.command("play", "kube", "--network", network, os.path.join(DIRECTORY, name), seconds=SECONDS)
        ended(podman, "usrdma-server-server", "usrdma-client-client")
    finally:
        podman.command("play", "kube", "--down", os.path.join(DIRECTORY, name))


def cases(counted, podman):
    counted.run("compose.yaml: two containers, RoCEv2", compose, podman)
    counted.run("compose-shared.yaml: two containers, shared memory", compose_shared, podman)
    counted.run("kubernetes/one-pod.yaml: the commands of its containers, shared memory", one_pod, podman)
    counted.run("kubernetes/one-node.yaml: two pods of podman, RoCEv2", two_pods, podman, "kubernetes/one-node.yaml",
                "podAffinity")
    counted.run("kubernetes/two-nodes.yaml: two pods of podman, RoCEv2", two_pods, podman, "kubernetes/two-nodes.yaml",
                "podAntiAffinity")
