"""Memory available to models, by the limits of container and machine."""

from __future__ import annotations

from pathlib import Path

from gpuproof.serve.workers.available_memory import read_memory


def test_the_containers_limit_counts_before_the_machines_memory(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8192 kB\nMemAvailable: 4096 kB\n")
    assert read_memory(tmp_path) == (4096 * 1024, 8192 * 1024)
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    assert read_memory(tmp_path) == (4096 * 1024, 8192 * 1024)
    (group / "memory.max").write_text("2097152\n")
    (group / "memory.current").write_text("1572864\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 1024\n")
    assert read_memory(tmp_path) == (2097152 - 1572864 + 1024, 2097152)
