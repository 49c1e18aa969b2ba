"""Generates the Markdown page of each rule from its docstring, and the index of all rules."""

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
    "link": "on by default; requires a job that is linked to the script that it runs",
    "strict": "off unless selected, as in `gpuproof check --select {code}`",
}


def page_path(code: str) -> str:
    """Path of a rule's page in the project's repository."""
    return f"docs/rules/{code}.md"


def page(rule: Rule) -> str:
    """The page of a rule in Markdown, generated from its docstring."""
    documentation = read_documentation(rule.doc)
    when = _WHEN[rule.when].format(code=rule.code)
    parts = [f"# {rule.code}: {rule.name}", f"*{rule.severity}, {when}*", documentation.reason]
    for verdict, title in (("Bad", "Flagged"), ("Good", "Use instead"), ("Quiet", "Not flagged")):
        shown = [example for example in documentation.examples if example.verdict == verdict]
        if shown:
            parts.append(f"## {title}")
            parts += list(_blocks(shown, documentation.examples))
    parts.append(
        f"To suppress one finding, add the comment `# noqa: {rule.code}` or `# gpuproof: ignore[{rule.code}]` to its line."
    )
    return "\n\n".join(parts) + "\n"


def index(rules: Iterable[Rule]) -> str:
    """The index of all rules in Markdown."""
    lines = ["# Rules of `gpuproof check`", "", "| code | name | severity | on | |", "|---|---|---|---|---|"]
    for rule in rules:
        summary = read_documentation(rule.doc).summary.replace("|", "\\|")
        lines.append(
            f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {rule.when} | {summary} |"
        )
    legend = "`link` rules are on but require a job that is linked to the script that it runs; `strict` rules are off unless selected."
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
