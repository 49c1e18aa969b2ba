"""Commands that make no AWS requests, and options that do not change which requests a command makes."""

from __future__ import annotations

LOCAL_COMMANDS = {
    "check": "reads files",
    "plan": "reads files and the catalogue, with --history runs on this machine",
    "calibrate": "measures this machine",
    "doctor": "looks at this machine",
    "bench-endpoint": "measures an HTTP server; an endpoint's name is refused",
    "serve": "serves on this machine; it finds a run as `package` does",
    "agent": "writes a file",
    "baseline show": "reads a file",
    "baseline rm": "changes a file",
    "rule": "prints documentation",
    "watch": "watches this machine; with --to, its hosts use their own role (docs/watch-clusters.md)",
    "verdict": "reads reports where --to has left them, which is the user's own folder or bucket (docs/watch-clusters.md)",
    "gpus": "reads the catalogue",
    "iam": "prints policies; it asks STS for the account, which needs no permission",
    "catalogue status": "reads the catalogue",
    "catalogue refresh": "its permissions are in docs/gpus.md",
    "completion": "prints a script",
    "schema": "prints a schema",
    "mcp": "runs the other commands",
    "dashboard": "shows what `ps`, `top`, `report`, `compare` and `cost` show, and stops as `stop` does",
    "skill": "prints a guide",
    "emulator": "is an AWS of its own",
}
SAME_REQUESTS_EVERYWHERE = {"--help", "--format", "--json", "--html", "--timeout"}
_SERVED = {"--code", "--image", "--server", "--framework-version", "--env", "--bucket"}
SAME_REQUESTS = {
    "run": {
        *(
            "--include",
            "--no-respect-gitignore",
            "--env",
            "--framework-version",
            "--stall-timeout",
            "--no-step-times",
            "--sink",
            "--notify-topic",
            "--notify-webhook",
            "--notify-cost",
            "--hyperparameter",
        ),
        *(
            "--distribution",
            "--processes-per-host",
            "--fresh",
            "--python",
            "--isolation",
            "--max-cost",
            "--rebalance",
        ),
        "--dry-run",  # makes the first of them
    },
    "notebook create": {
        *("--dry-run", "--idle-timeout", "--volume-size", "--no-root-access", "--platform"),
        *("--no-internet-access", "--subnet", "--security-group"),
    },
    "deploy": {
        *_SERVED,
        *("--dry-run", "--max-cost", "--instance-count", "--request", "--content-type", "--startup-timeout"),
        "--no-network-isolation",
    },
    "delete": {"--dry-run"},
    "predict": {"--content-type", "--accept", "--target-model"},
    "transform": {
        *_SERVED,
        *("--dry-run", "--accept", "--split", "--records", "--concurrency", "--max-payload"),
    },
    "package": {"--requirements", "--include", "--request", "--content-type", "--python"},
    "explain": {"--instance-type"},
    "receipt": {"--sign"},
    "report": {"--open", "--output"},
    "verify": {"--allowed-signers", "--key", "--revoked", "--source"},
    "compare": {"--baseline", "--file", "--max-slower", "--max-cost", "--max-memory"},
    "baseline set": {"--file", "--name"},
    "cleanup": {"--dry-run"},
    "setup": {"--print"},
}
