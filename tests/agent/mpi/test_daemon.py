from __future__ import annotations

import pytest

from gpuproof.agent.mpi.daemon import NotADaemon, parse_daemon_command

# Recorded from Open MPI 4.1.4 and 5.0.11.
CLASSIC = (
    "          PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; "
    'export LD_LIBRARY_PATH ;   /usr/bin/orted --daemonize -mca ess "env" -mca ess_base_jobid "1355087872" '
    '-mca orte_node_regex "vm,algo-[1:1-2]@0(3)" -mca orte_hnp_uri "1355087872.0;tcp://10.0.0.1:45775;tcp6://[fd00::2]:39537" '
    '-mca pmix "^s1,s2,cray,isolated"'
)
MODERN = (
    "PRTE_PREFIX=/opt/mpi;export PRTE_PREFIX;PMIX_PREFIX=/opt/mpi;export PMIX_PREFIX;"
    "LD_LIBRARY_PATH=/opt/mpi/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;/opt/mpi/bin/prted --allow-run-as-root "
    '--prtemca ess "env" --prtemca prte_hnp_uri "prterun-vm-1@0.0;tcp://10.77.0.1:43769:24"'
)


def test_open_mpi_4_starts_orted_in_the_foreground():
    daemon = parse_daemon_command(CLASSIC, {"PATH": "/bin", "HOME": "/root"})
    assert daemon.command[:4] == ["/usr/bin/orted", "-mca", "ess", "env"]
    assert "--daemonize" not in daemon.command
    assert "1355087872.0;tcp://10.0.0.1:45775;tcp6://[fd00::2]:39537" in daemon.command
    assert daemon.environment == {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/usr/lib:", "HOME": "/root"}


def test_open_mpi_5_starts_prted():
    daemon = parse_daemon_command(MODERN, {"LD_LIBRARY_PATH": "/lib"})
    assert daemon.command[:2] == ["/opt/mpi/bin/prted", "--allow-run-as-root"]
    assert daemon.command[-1] == "prterun-vm-1@0.0;tcp://10.77.0.1:43769:24"
    assert daemon.environment["PRTE_PREFIX"] == "/opt/mpi"
    assert daemon.environment["LD_LIBRARY_PATH"] == "/opt/mpi/lib:/lib"


def test_the_profile_that_a_login_shell_would_read_is_left_out():
    text = "( test ! -r ./.profile || . ./.profile; PATH=/a:$PATH ; export PATH ; orted -mca ess env )"
    daemon = parse_daemon_command(text, {"PATH": "/bin"})
    assert daemon.command == ["orted", "-mca", "ess", "env"]
    assert daemon.environment == {"PATH": "/a:/bin"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rm -rf /",
        "/bin/sh -c orted",
        "orted; rm -rf /",
        "orted && rm -rf /",
        "rm -rf / ; orted",
        "rm -rf / | orted",
        "orted > /etc/passwd",
        "PATH=/x",
        'orted "open',
        "myorted -mca ess env",
    ],
)
def test_nothing_else_is_started(text: str):
    with pytest.raises(NotADaemon):
        parse_daemon_command(text, {})


def test_what_a_shell_would_run_inside_words_is_only_text():
    daemon = parse_daemon_command("orted '$(reboot)' `reboot`", {})
    assert daemon.command == ["orted", "$(reboot)", "`reboot`"]
