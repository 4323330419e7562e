"""Accounts of memory, from files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

from fibernb.store.memory import Account, accounts, limit_bytes, tightest

KB = 1024


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def host(total_kb: int = 1000, available_kb: int = 400) -> dict[str, str]:
    lines = [f"MemTotal: {total_kb} kB", "MemFree: 10 kB", f"MemAvailable: {available_kb} kB", "HugePages_Total: 0"]
    return {"proc/meminfo": "\n".join(lines)}


HOST = Account(what="this host", limit_bytes=1000 * KB, used_bytes=600 * KB)


def test_a_host_without_control_groups(tmp_path: Path) -> None:
    write(tmp_path, host())
    assert accounts(tmp_path) == [HOST]
    assert HOST.free_bytes == 400 * KB
    assert HOST.fraction == 0.6


def test_version_2_with_a_limit_above(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/kube/pod"
    files = {
        "proc/self/cgroup": "0::/kube/pod\n",
        f"{group}/memory.max": "max\n",
        f"{group}/memory.current": "5000\n",
        "sys/fs/cgroup/kube/memory.max": "10000\n",
        "sys/fs/cgroup/kube/memory.current": "9500\n",
        "sys/fs/cgroup/kube/memory.stat": "anon 8000\ninactive_file 500\n",
    }
    write(tmp_path, host() | files)
    group_account = Account(what="the control group", limit_bytes=10_000, used_bytes=9000)
    assert accounts(tmp_path) == [HOST, group_account]
    assert tightest(accounts(tmp_path)) == group_account
    assert limit_bytes(accounts(tmp_path)) == 10_000


def test_version_1_seen_from_inside_of_a_container(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu:/docker/ab\n4:memory:/docker/ab\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000000\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 1000\ntotal_inactive_file 3000000\n",
    }
    write(tmp_path, host() | files)
    assert accounts(tmp_path)[1:] == [Account(what="the control group", limit_bytes=4_096_000, used_bytes=1_000_000)]


def test_no_limit_is_no_account(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000000\n",
    }
    write(tmp_path, host() | files)
    assert accounts(tmp_path) == [HOST]


def test_elsewhere_nothing_is_known(tmp_path: Path) -> None:
    assert accounts(tmp_path) == []
    assert tightest([]) is None
    assert limit_bytes([]) == 0
    write(tmp_path, {"proc/meminfo": "MemTotal: 100 kB\nMemFree: 10 kB\n"})
    assert accounts(tmp_path)[0].free_bytes == 10 * KB


def test_this_host() -> None:
    found = accounts()
    assert found[0].what == "this host"
    assert 0 < found[0].used_bytes < found[0].limit_bytes
