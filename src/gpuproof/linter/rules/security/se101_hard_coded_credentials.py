"""The source contains an AWS access key or a token: anyone who can read the file, or its history, can use the account.

Bots scan public repositories for such keys within minutes and start GPU instances with them. SageMaker jobs and EC2
instances have a role and need no key; on your own machine, a profile or single sign-on keeps the key out of the code.
A key that was ever committed must be deactivated: deleting the line does not revoke it. In shell scripts, Makefiles and
Dockerfiles, tokens of Hugging Face, GitHub and Weights & Biases are recognised by their form.

Bad:

    import boto3

    session = boto3.Session(aws_access_key_id="AKIAGPUPROOFDOCS2345")  # <-

Bad: a token in a shell script

    # file: train.sh
    export HF_TOKEN=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  # <-
    export AWS_ACCESS_KEY_ID=AKIAGPUPROOFDOCS2345  # <-
    python train.py

Good:

    import boto3

    session = boto3.Session(profile_name="research")

Good: the shell gets the token from elsewhere

    # file: train.sh
    export HF_TOKEN=$(aws secretsmanager get-secret-value --secret-id hf --query SecretString --output text)
    export WANDB_API_KEY=$WANDB_KEY
    python train.py

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

_KEY = re.compile(r"(?:(?<![A-Za-z0-9+/=])|(?<=(?i:key_id=)))(AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9+/=])")
_EXPORTED = re.compile(r"(?i:secret_?access_?key\s*=\s*)([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])")
"""Without quotes, as a shell reads it."""
_SECRET = re.compile(r"""(?i:secret_?access_?key["']?\s*[=:]\s*["'])([A-Za-z0-9+/]{40})["']""")

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_/-])(hf_[A-Za-z0-9]{34}|gh[pousr]_[A-Za-z0-9]{36})(?![A-Za-z0-9_])"
    r"|(?:(?i:wandb_api_key)[\"']?\s*[=:]\s*[\"']?|wandb login )([0-9a-f]{40})(?![0-9a-f])"
)
_REMEDY = (
    "Deactivate the key in IAM now, then use the job's role or a profile: boto3.Session(profile_name=...)."
)
_REVOKE = "Revoke it now, keep the new one in AWS Secrets Manager, and read it where the job starts."


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if is_test_file(unit) or unit.absolute.parent.name == "fixtures":
        return
    for span, text, what in _keys(unit):
        yield rule.hit(
            span,
            f"The source contains {what} (`{text[:4]}…{text[-2:]}`): anyone who can read the file can use the account.",
            remedy=_REVOKE if what == "a token" else _REMEDY,
        )


def _keys(unit: Unit) -> Iterator[tuple[Span, str, str]]:
    if not any(word in unit.source for word in ("AKIA", "ASIA", "ccess", "hf_", "gh", "wandb", "WANDB")):
        return
    kinds = [(_KEY, "an AWS access key"), (_SECRET, "an AWS secret access key")]
    if unit.kind in ("shell", "makefile", "dockerfile"):
        kinds += [(_EXPORTED, "an AWS secret access key"), (_TOKEN, "a token")]
    for number, line in enumerate(unit.lines, 1):
        for pattern, what in kinds:
            match = pattern.search(line)
            if match is None:
                continue
            group = 0 if pattern is _KEY else match.lastindex or 0
            if not is_not_secret(match[group]):
                yield (
                    unit.span(number, match.start(group) + 1, number, match.end(group) + 1),
                    match[group],
                    what,
                )
                break
