"""Renders the documentation page of a rule, and the list of all rules, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.linter.docs.examples import DEFAULT_FILE, Example, read_documentation
from gpuproof.linter.rule import Rule

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
    "link": "on by default; needs both the job and its script",
    "plan": "with `gpuproof check --plan`, which runs the script of a job",
    "strict": "off by default; turn it on with `gpuproof check --select {code}`",
}


def render_page(rule: Rule) -> str:
    """The page of a rule, generated from its docstring."""
    documentation = read_documentation(rule.doc)
    when = _WHEN[rule.when].format(code=rule.code)
    parts = [f"# {rule.code}: {rule.name}", f"*{rule.severity}, {when}*", documentation.reason]
    for kind, title in (("Bad", "Flagged"), ("Good", "Use instead"), ("Quiet", "Not flagged")):
        shown = [example for example in documentation.examples if example.kind == kind]
        if shown:
            parts.append(f"## {title}")
            parts += list(_blocks(shown, documentation.examples))
    parts.append(
        f"To suppress a finding, put `# noqa: {rule.code}` or `# gpuproof: ignore[{rule.code}]` on its line."
    )
    return "\n\n".join(parts) + "\n"


def render_index(rules: Iterable[Rule]) -> str:
    """The list of all rules in Markdown."""
    lines = [
        "# Rules of `gpuproof check`",
        "",
        "| Code | Name | Severity | On | Summary |",
        "|---|---|---|---|---|",
    ]
    for rule in rules:
        summary = read_documentation(rule.doc).summary.replace("|", "\\|")
        lines.append(
            f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {rule.when} | {summary} |"
        )
    legend = "`link`: on by default, needs both the job and its script. `plan`: with `--plan`, which traces the script. `strict`: off unless selected."
    return "\n".join([*lines, "", legend]) + "\n"


def _blocks(examples: list[Example], all_examples: tuple[Example, ...]) -> Iterable[str]:
    for example in examples:
        if example.title:
            yield example.title[0].upper() + example.title[1:] + ":"
        yield from _files(example)
        following = all_examples[all_examples.index(example) + 1 :][:1]
        if example.kind == "Bad" and following and following[0].kind == "Fixed":
            yield "After `--fix`:"
            yield from _files(following[0])


def _files(example: Example) -> Iterable[str]:
    for name, text in example.shown:
        if name != DEFAULT_FILE:
            yield f"`{name}`"
        yield f"```{_LANGUAGES.get(name.rpartition('.')[2], 'python')}\n{text}\n```"
