"""Which addresses are forwarded, and the proxy variables on the hosts."""

from __future__ import annotations

from gpuproof.agent.hosts.egress import Egress, Forward, proxy_variables

ADDRESSES = {"algo-1": "10.77.0.1", "algo-2": "10.77.0.2"}
DIRECT = "localhost,127.0.0.1,::1,169.254.169.254,169.254.170.2,algo-1,algo-2,10.77.0.1,10.77.0.2"


def test_without_a_proxy_of_the_users_own_the_variables_name_ours() -> None:
    egress = Egress.from_environment({"HOME": "/root", "HTTPS_PROXY": ""}, ports=[4566])
    assert list(egress.forwards) == [Forward("127.0.0.1", 4566, "127.0.0.1")]
    ours = "http://127.0.0.1:17788"
    assert proxy_variables(egress, ADDRESSES) == {
        **dict.fromkeys(["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"], ours),
        **dict.fromkeys(["no_proxy", "NO_PROXY", "no_grpc_proxy"], DIRECT),
    }


def test_the_users_own_proxies_keep_their_url_and_are_forwarded() -> None:
    environment = {
        "HTTPS_PROXY": "http://user:word@proxy.corp:3128",
        "http_proxy": "127.0.0.1:3129",
        "no_proxy": ".corp, localhost",
    }
    egress = Egress.from_environment(environment)
    assert set(egress.forwards) == {
        Forward("127.1.0.1", 3128, "proxy.corp"),
        Forward("127.0.0.1", 3129, "127.0.0.1"),
    }
    assert egress.names == {"proxy.corp": "127.1.0.1"}
    variables = proxy_variables(egress, ADDRESSES)
    assert variables["HTTPS_PROXY"] == environment["HTTPS_PROXY"]
    assert variables["http_proxy"] == environment["http_proxy"]
    assert "https_proxy" not in variables
    assert variables["NO_PROXY"] == variables["no_proxy"] == f".corp,{DIRECT}"


def test_a_proxy_by_address_keeps_its_address() -> None:
    egress = Egress.from_environment({"ALL_PROXY": "socks5h://10.1.2.3"})
    assert list(egress.forwards) == [Forward("10.1.2.3", 1080, "10.1.2.3")]
    assert "HTTP_PROXY" not in proxy_variables(egress, ADDRESSES)


def test_servers_of_this_machine_that_the_environment_names_are_forwarded() -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://localhost:4566",
        "URI": "http://127.0.0.1:5000/x",
        "OTHER": "//1.2.3.4:5",
    }
    egress = Egress.from_environment(environment, ports=[5000], metadata=True)
    assert [(forward.address, forward.port, forward.target) for forward in egress.forwards] == [
        ("127.0.0.1", 5000, "127.0.0.1"),
        ("127.0.0.1", 4566, "127.0.0.1"),
        ("169.254.169.254", 80, "169.254.169.254"),
        ("169.254.170.2", 80, "169.254.170.2"),
    ]


def test_hosts_on_a_host_have_a_proxy_behind_its_proxy() -> None:
    outer = proxy_variables(Egress(), ADDRESSES)
    inner = Egress.from_environment(outer)
    assert list(inner.forwards) == [Forward("127.0.0.1", 17788, "127.0.0.1")]
    assert inner.proxy_port == 17789
    assert proxy_variables(inner, {})["HTTPS_PROXY"] == outer["HTTPS_PROXY"]


def test_what_is_no_url_is_left_alone() -> None:
    egress = Egress.from_environment({"HTTPS_PROXY": "http://proxy:port", "HTTP_PROXY": "http://[::1]:80"})
    assert not egress.forwards
    assert not egress.variables
