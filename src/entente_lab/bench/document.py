"""A page of results as blocks, written as Markdown and as one HTML file that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from entente.artifacts import write_text

Mark = Literal["", "best", "second", "bad"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of a table."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Something to type."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """The first column holds names, the others figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG drawing: inside an HTML page, a file of its own beside a Markdown page."""

    svg: str
    caption: str = ""


Block = Heading | Paragraph | Command | Table | Figure


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


MARKDOWN = {"": "{}", "best": "**{}**", "second": "_{}_", "bad": "{} ▼"}


def write_markdown(path: Path, document: Document) -> list[Path]:
    """The page at `path`, and its drawings in the folder `figures` beside it; gives the paths."""
    folder = path.parent / "figures"
    drawn: list[Path] = []
    for stale in folder.glob(f"{path.stem}-[0-9]*.svg"):
        stale.unlink()
    for block in document.blocks:
        if isinstance(block, Figure):
            drawn.append(folder / f"{path.stem}-{len(drawn) + 1}.svg")
            folder.mkdir(parents=True, exist_ok=True)
            write_text(drawn[-1], block.svg + "\n")
    write_text(path, to_markdown(document, [f"figures/{file.name}" for file in drawn]))
    return [path, *drawn]


def to_markdown(document: Document, drawings: Sequence[str] = ()) -> str:
    """`drawings` are where the page's figures lie, in order; those without a place are left out."""
    parts, left = [f"# {document.title}"], list(drawings)
    for block in document.blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {text}")
            case Paragraph(text):
                parts.append(text)
            case Command(text):
                parts.append("\n".join(f"    {line}" for line in text.splitlines()))
            case Table():
                parts.append(_markdown_table(block))
            case Figure(svg, caption):
                if left:
                    title = svg.partition("<title>")[2].partition("</title>")[0]
                    parts.append(
                        f"![{html.unescape(title)}]({left.pop(0)})" + (f"\n\n{caption}" if caption else "")
                    )
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    lines = [f"*{table.caption}*\n"] if table.caption else []
    lines.append("| " + " | ".join(_field(name) for name in table.columns) + " |")
    lines.append("|" + "---|" + "---:|" * (len(table.columns) - 1))
    for row in table.rows:
        lines.append("| " + " | ".join(_marked(entry) for entry in row) + " |")
    return "\n".join(lines)


def _marked(entry: Entry) -> str:
    text = _field(entry.text)
    return MARKDOWN[entry.mark].format(text) if text else text


def _field(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2733}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem;border-bottom:1px solid #d8dee4;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}caption{text-align:left;color:#57606a;padding:.2rem 0}
.best{font-weight:700;background:#cfe8ff}.second{background:#eaf4ff}.bad{color:#a40e26}
pre{background:#f2f4f6;padding:.6rem 1rem;overflow:auto}figure{margin:1rem 0}.wide{overflow-x:auto}
figcaption{color:#57606a}svg{max-width:100%;height:auto}
"""


def to_html(document: Document) -> str:
    parts = [f"<h1>{html.escape(document.title)}</h1>"]
    for block in document.blocks:
        match block:
            case Heading(text, level):
                parts.append(f"<h{level}>{html.escape(text)}</h{level}>")
            case Paragraph(text):
                parts.append(f"<p>{html.escape(text)}</p>")
            case Command(text):
                parts.append(f"<pre>{html.escape(text)}</pre>")
            case Table():
                parts.append(_html_table(block))
            case Figure(svg, caption):
                parts.append(f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>")
    title = html.escape(document.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _html_table(table: Table) -> str:
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    rows = "\n".join(
        "<tr>" + "".join(f'<td class="{e.mark}">{html.escape(e.text)}</td>' for e in row) + "</tr>"
        for row in table.rows
    )
    return f'<div class="wide"><table>{caption}<tr>{head}</tr>\n{rows}</table></div>'
