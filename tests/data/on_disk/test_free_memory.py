"""How much memory is free, read from what Linux writes, in folders made by the tests."""

import pytest

from isotherm.data.on_disk.free_memory import available

FREE = 1000 * 1024


@pytest.fixture
def system(tmp_path):
    """A function that writes what the system says, by file."""

    def written(**files):
        for name, text in {"proc/meminfo": "MemTotal: 4000 kB\nMemAvailable:    1000 kB\n", **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return written


def test_without_control_groups(system):
    assert available(system()) == FREE


def test_a_system_that_does_not_say(tmp_path):
    assert available(tmp_path) == 0


def test_version_2_and_its_groups_within_groups(system):
    """The tightest counts; pages of files that are not in use are given back when they are needed."""
    root = system(
        **{
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": "500000\n",
            "sys/fs/cgroup/a/memory.current": "450000\n",
            "sys/fs/cgroup/a/memory.stat": "anon 300000\ninactive_file 100000\nactive_file 7\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "450000\n",
        }
    )
    assert available(root) == 150_000
    (root / "sys/fs/cgroup/a/b/memory.max").write_text("460000")
    assert available(root) == 10_000


def test_version_2_in_a_container(system):
    """The path may be the host's, of which the container sees its own group alone."""
    root = system(
        **{
            "proc/self/cgroup": "0::/../../docker/1234\n",
            "sys/fs/cgroup/memory.max": "300000\n",
            "sys/fs/cgroup/memory.current": "400000\n",
        }
    )
    assert available(root) == 0


def test_version_1(system):
    root = system(
        **{
            "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/slurm/job\n",
            "sys/fs/cgroup/memory/slurm/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/slurm/memory.usage_in_bytes": "100\n",
            "sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes": "200000\n",
            "sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes": "150000\n",
            "sys/fs/cgroup/memory/slurm/job/memory.stat": "inactive_file 1\ntotal_inactive_file 20000\n",
        }
    )
    assert available(root) == 70_000
