"""--engine ray: where the work is done, and which device it asks for there."""

import pytest

from patchprint.cli.ray_options import device_there, where_and_how
from patchprint.common.errors import UserError
from patchprint.interop.ray_cluster import Cluster


def test_a_cluster_is_asked_for_devices_that_this_machine_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_there("cuda", Cluster()) == "cuda"
    assert device_there("cpu", None) == "cpu"
    with pytest.raises(UserError, match="this machine has no cuda device"):
        device_there("cuda", None)


def test_an_engine_says_where_and_how() -> None:
    pytest.importorskip("ray")
    assert where_and_how("ray", None) == (Cluster(), "auto")
    assert where_and_how("ray:float32", None) == (Cluster(), "float32")
    assert where_and_how("int8", None) == (None, "int8")
    with pytest.raises(UserError, match="--address is the address of a cluster; give --engine ray too"):
        where_and_how("int8", "host:6379")
