"""The source contains an AWS access key: anyone who can read the file, or its history, can use the account.

Bots scan public repositories for such keys within minutes and start GPU instances with them. SageMaker jobs and EC2
instances have a role and need no key; on your own machine, a profile or single sign-on keeps the key out of the code.
A key that was ever committed must be deactivated: deleting the line does not revoke it.

Bad:

    import boto3

    session = boto3.Session(aws_access_key_id="AKIAGPUPROOFDOCS2345")  # <-

Good:

    import boto3

    session = boto3.Session(profile_name="research")

Quiet: the example key of AWS's documentation

    import boto3

    session = boto3.Session(aws_access_key_id="AKIAIOSFODNN7EXAMPLE")

Quiet: empty values

    import boto3

    session = boto3.Session(aws_access_key_id="", aws_secret_access_key="")

Quiet: the same letters inside a longer text

    digest = "XXAKIAGPUPROOFDOCS2345YY"
"""

import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.knowledge.placeholders import is_not_secret
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.source.test_files import is_test_file

rule = Rule("SE101", "hard-coded-credentials", Severity.ERROR)

_KEY = re.compile(r"(?<![A-Za-z0-9+/=])(AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9+/=])")
_EXPORTED = re.compile(r"(?i:secret_?access_?key\s*=\s*)([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])")
"""Without quotes, as a shell reads it."""
_SECRET = re.compile(r"""(?i:secret_?access_?key["']?\s*[=:]\s*["'])([A-Za-z0-9+/]{40})["']""")


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if is_test_file(unit) or unit.absolute.parent.name == "fixtures":
        return
    for span, text, what in _keys(unit):
        yield rule.hit(
            span,
            f"The source contains an AWS {what} (`{text[:4]}…{text[-2:]}`): anyone who can read the file can use the account.",
            remedy="Deactivate the key in IAM now, then use the job's role or a profile: boto3.Session(profile_name=...).",
        )


def _keys(unit: Unit) -> Iterator[tuple[Span, str, str]]:
    if not any(word in unit.source for word in ("AKIA", "ASIA")) and "ccess" not in unit.source:
        return
    for number, line in enumerate(unit.lines, 1):
        key, secret = _KEY.search(line), _SECRET.search(line)
        if secret is None and unit.kind in ("shell", "makefile", "dockerfile"):
            secret = _EXPORTED.search(line)
        if key is not None and not is_not_secret(key.group(0)):
            yield unit.span(number, key.start() + 1, number, key.end() + 1), key.group(0), "access key"
        elif secret is not None and not is_not_secret(secret.group(1)):
            yield (
                unit.span(number, secret.start(1) + 1, number, secret.end(1) + 1),
                secret.group(1),
                "secret access key",
            )
