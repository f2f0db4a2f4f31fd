"""Reference pages from code: command line and Python surface. `docs/conf.py` writes them before a build."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

import entente
from entente.cli import COMMANDS, build

WITH_MEMBERS = {
    *("AnomalyDetector", "TrainedRun", "Detector", "Aggregator", "Format", "Sink", "Source", "Output"),
}
HIDDEN = ("help", "install_completion", "show_completion")


def write(folder: Path) -> None:
    """All pages into `folder`; one that has not changed is left alone, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    pages = {"cli.md": command_page(), "api.md": api_page(), "more.md": more_page(folder.parent)}
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def command_page() -> str:
    """Every command with its options."""
    lines = [
        *("# Command line", ""),
        "Generated from the commands themselves. Every command ends with 0, or with a [numbered exit",
        "code](../exit-codes.md). `entente --install-completion` teaches your shell the names.",
        "",
    ]
    for name in COMMANDS:
        root: Any = typer.main.get_command(build([name]))
        lines += described(root.commands[name], f"entente {name}", 2)
    return "\n".join(lines)


def described(command: Any, path: str, level: int) -> Iterator[str]:
    """One command, and those below it."""
    yield from (f"{'#' * level} `{path}`", "", *paragraphs(command.help or ""), "")
    options = [one for one in command.params if not one.hidden and one.name not in HIDDEN]
    if options:
        yield from ("| | |", "|---|---|")
        yield from (row(one) for one in options)
        yield ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from described(inner, f"{path} {name}", level + 1)


def paragraphs(text: str) -> Iterator[str]:
    """Help as prose; an example as code."""
    for paragraph in inspect.cleandoc(text.replace("\\[", "[").replace("\f", "")).split("\n\n"):
        example = re.match(r"Example: (.*)", paragraph, flags=re.S)
        if example is not None:
            yield from ("```sh", " ".join(example[1].split()), "```", "")
        else:
            yield from (escaped(paragraph), "")


def row(option: Any) -> str:
    """One option or argument as a row of a table."""
    option_like = option.param_type_name == "option"
    names = ", ".join(option.opts) if option_like else (option.metavar or option.name)
    value = f" {option.metavar}" if option_like and option.metavar else ""
    default = option.default
    silent = default is None or default is False or default == [] or callable(default)
    shown = "" if silent else f" Default: `{default}`."
    needed = " Required." if option.required else ""
    said = escaped((getattr(option, "help", "") or "").replace("|", "\\|"))
    return f"| `{names}{value}` | {said}{shown}{needed} |"


def escaped(text: str) -> str:
    """Prose in which brackets, angles and stars are themselves."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\[\]<>*_])", r"\\\1", p) for p in pieces)


def api_page() -> str:
    """Every public name from its docstring."""
    lines = [
        *("# Python", ""),
        "Generated from the docstrings; the tests run the examples. How to use it:",
        "[the library](../library.md).",
        "",
    ]
    for name in entente.PUBLIC:
        lines += [f"## `{name}`", "", "```{eval-rst}", *directive(name), "```", ""]
    return "\n".join(lines)


def more_page(docs: Path) -> str:
    """Pages that no list of contents names yet, so that a new one is never lost."""
    lists = ("index.md", "how-to.md", "reference.md", "explanation.md", "tutorials/index.md")
    named = " ".join((docs / name).read_text(encoding="utf-8") for name in lists)
    known = set(re.findall(r"^(?:.*<)?([a-z0-9/-]+)>?$", named, flags=re.M))
    rest = [page.stem for page in sorted(docs.glob("*.md")) if page.stem not in known | {"index"}]
    listed = ["```{toctree}", *(f"../{name}" for name in rest), "```"] if rest else ["None at present."]
    return "\n".join(["# More", "", *listed, ""])


def directive(name: str) -> list[str]:
    """What makes Sphinx describe a public name."""
    if name == "partition":
        return [".. autofunction:: entente.partition.split.partition"]
    found = getattr(entente, name)
    if inspect.ismodule(found):
        return [f".. automodule:: entente.{name}", f"   :members: {', '.join(found.__all__)}"]
    if inspect.isclass(found):
        members = ["   :members:"] if name in WITH_MEMBERS else []
        return [f".. autoclass:: entente.{name}", *members]
    return [f".. autofunction:: entente.{name}"]
