"""One cluster for each module: what every example of Ray's documentation starts from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fibernb as ray
from fibernb.client.cluster import Cluster
from tests.integration.conftest import Place, place

__all__ = ["place"]


@pytest.fixture(scope="module", autouse=True)
def ray_cluster(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four CPUs, two GPUs that nobody looks at, two pieces of a resource of our own, and a cache that goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        cluster = ray.init(num_cpus=4, num_gpus=2, resources={"special": 2}, namespace="tests", lease_s=5)
        cluster.scale(4, timeout_s=60)
        yield cluster
        ray.shutdown()
