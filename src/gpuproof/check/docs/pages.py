"""A rule's page: from its docstring to Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.check.docs.examples import DEFAULT_FILE, Example, read_documentation
from gpuproof.check.rule import Rule

_LANGUAGES = {
    "py": "python",
    "ipynb": "python",
    "tf": "hcl",
    "yaml": "yaml",
    "yml": "yaml",
    "json": "json",
    "txt": "text",
}
_WHEN = {
    "default": "on by default",
    "link": "on by default; speaks only where a job is linked to the script that it runs",
    "strict": "off unless selected, as in `gpuproof check --select {code}`",
}


def page_path(code: str) -> str:
    """Where a rule's page lies in the project's repository."""
    return f"docs/rules/{code}.md"


def page(rule: Rule) -> str:
    """A rule's page in Markdown, made from its docstring alone."""
    documentation = read_documentation(rule.doc)
    when = _WHEN[rule.when].format(code=rule.code)
    parts = [f"# {rule.code}: {rule.name}", f"*{rule.severity}, {when}*", documentation.reason]
    for verdict, title in (("Bad", "Found"), ("Good", "Better"), ("Quiet", "Not found, and rightly")):
        shown = [example for example in documentation.examples if example.verdict == verdict]
        if shown:
            parts.append(f"## {title}")
            parts += list(_blocks(shown, documentation.examples))
    silence = f"A comment `# noqa: {rule.code}` or `# gpuproof: ignore[{rule.code}]` on its line silences one finding."
    parts.append(silence)
    return "\n\n".join(parts) + "\n"


def index(rules: Iterable[Rule]) -> str:
    """The list of all rules in Markdown."""
    lines = ["# Rules of `gpuproof check`", "", "| code | name | severity | on | |", "|---|---|---|---|---|"]
    for rule in rules:
        summary = read_documentation(rule.doc).summary.replace("|", "\\|")
        lines.append(
            f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {rule.when} | {summary} |"
        )
    legend = "`link` is on, and speaks only where a job is linked to the script that it runs; `strict` is off unless selected."
    return "\n".join([*lines, "", legend]) + "\n"


def _blocks(examples: list[Example], every: tuple[Example, ...]) -> Iterable[str]:
    for example in examples:
        if example.title:
            yield example.title[0].upper() + example.title[1:] + ":"
        yield from _files(example)
        following = every[every.index(example) + 1 :][:1]
        if example.verdict == "Bad" and following and following[0].verdict == "Fixed":
            yield "After `--fix`:"
            yield from _files(following[0])


def _files(example: Example) -> Iterable[str]:
    for name, text in example.shown:
        if name != DEFAULT_FILE:
            yield f"`{name}`"
        yield f"```{_LANGUAGES.get(name.rpartition('.')[2], 'python')}\n{text}\n```"
