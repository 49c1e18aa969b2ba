"""Writes `docs/rules/CODE.md` for every rule of `gpuproof check`, from the rule's own docstring, their list, and their index.

python tools/build_rule_docs.py          # write what is not current, remove what no rule stands behind
python tools/build_rule_docs.py --check  # only say what is not current; exit 1 if anything
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "rules"
INDEX = ROOT / "src" / "gpuproof" / "linter" / "data" / "rules.json"


def main() -> int:
    """Write, or with --check compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a page is not current"
    )
    check = parser.parse_args().check
    wanted = pages()
    stale = [name for name, text in wanted.items() if _read(FOLDER / name) != text]
    unknown = sorted(path.name for path in FOLDER.glob("*.md") if path.name not in wanted)
    for name in (*stale, *unknown):
        print(f"{'not current' if check else 'written' if name in wanted else 'removed'}: docs/rules/{name}")
    index = _index()
    if is_index_stale := _read(INDEX) != index:
        print(f"{'not current' if check else 'written'}: {INDEX.relative_to(ROOT)}")
    if check:
        return 1 if stale or unknown or is_index_stale else 0
    INDEX.write_text(index, encoding="utf-8")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(wanted[name], encoding="utf-8")
    for name in unknown:
        (FOLDER / name).unlink()
    return 0


def pages() -> dict[str, str]:
    """The text of each page by its file's name; `README.md` is the list."""
    from gpuproof.linter.docs.pages import render_index, render_page
    from gpuproof.linter.registry import all_rules

    rules = all_rules()
    return {"README.md": render_index(rules), **{f"{rule.code}.md": render_page(rule) for rule in rules}}


def _index() -> str:
    from gpuproof.linter.registry import imported_entries, index_of

    return index_of(imported_entries())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
