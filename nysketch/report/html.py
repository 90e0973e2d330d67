"""The page around sections: one HTML file that needs nothing else, and the pieces that sections are made of.

Its policy allows no script and nothing from elsewhere, only the one style sheet, known by its digest. All
that comes from data passes `text` (plotting/svg.py), which escapes it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from nysketch.plotting.drawing import Drawing
from nysketch.plotting.svg import FONT, inline, small, style_sheet, text, themes

# On narrower screens, narrow pictures take the place of wide ones: words in them stay readable.
_NARROW_BELOW = 720

_CSS = f"""
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%;scroll-behavior:smooth}}
@media (prefers-reduced-motion:reduce){{html{{scroll-behavior:auto}}}}
body{{margin:0;background:var(--page);color:var(--text);font:16px/1.5 {FONT};overflow-wrap:anywhere}}
main,header,footer,nav{{max-width:930px;margin:0 auto;padding:0 20px}}
header{{padding-top:32px}}
h1{{font-size:1rem;font-weight:600;color:var(--muted);margin:0 0 6px}}
h2{{font-size:1.2rem;margin:0 0 4px;line-height:1.3}}
h3{{font-size:1rem;margin:26px 0 2px}}
p{{margin:4px 0 10px;max-width:72ch}}
a{{color:var(--link)}}
a:focus-visible,summary:focus-visible,.box:focus-visible{{outline:3px solid var(--link);outline-offset:2px}}
.lead{{font-size:1.45rem;line-height:1.35;font-weight:600;margin:0 0 18px;max-width:none;text-wrap:pretty}}
.quiet{{color:var(--quiet)}} .loud{{color:var(--alarm)}}
.tiles{{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:10px}}
.tiles{{margin:0 0 16px;padding:0}}
.tiles div,section,.notice{{background:var(--surface);border:1px solid var(--grid);border-radius:10px}}
.tiles div{{padding:10px 14px}}
.tiles dt{{color:var(--muted);font-size:.82rem}}
.tiles dd{{margin:0;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.3}}
.tiles small{{display:block;font-weight:400;font-size:.8rem;color:var(--muted)}}
.notice{{border-left:6px solid var(--alarm);padding:10px 16px;margin:0 0 14px}}
.notice ul{{margin:4px 0;padding-left:20px}}
nav{{margin-bottom:16px;font-size:.92rem}}
nav a{{display:inline-block;padding:4px 0;margin-right:16px}}
section{{padding:20px 22px;margin:0 0 18px}}
.about{{color:var(--muted);font-size:.92rem}}
figure{{margin:12px 0 6px}}
figcaption{{color:var(--muted);font-size:.88rem;margin-top:4px}}
svg{{display:block;width:100%;height:auto}}
svg.narrow{{display:none}}
.key{{display:flex;flex-wrap:wrap;gap:2px 18px;margin:8px 0 0;padding:0;list-style:none;font-size:.88rem}}
.key li{{display:flex;align-items:center;gap:6px}}
.key svg{{width:22px;height:16px;flex:none}}
.box{{overflow-x:auto;max-width:100%}}
.tall{{max-height:420px;overflow-y:auto}}
table{{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;width:100%}}
th,td{{padding:4px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}}
td{{vertical-align:top}}
th{{font-weight:600;color:var(--muted);background:var(--surface);position:sticky;top:0}}
.l{{text-align:left}}
td.wrap{{white-space:normal;min-width:16em;text-align:left}}
.nb{{white-space:nowrap}}
details{{margin:6px 0 0}}
summary{{cursor:pointer;color:var(--link);font-size:.88rem;padding:4px 0}}
footer{{color:var(--muted);font-size:.85rem;padding-top:6px;padding-bottom:40px}}
@media (max-width:{_NARROW_BELOW - 1}px){{
main,header,footer,nav{{padding-left:12px;padding-right:12px}}
header{{padding-top:18px}}
section{{padding:16px 14px}}
.lead{{font-size:1.2rem}}
figure svg.wide{{display:none}}
figure svg.narrow{{display:block;max-width:480px;margin:0 auto}}
}}
@media print{{
body{{background:none;font-size:11pt}}
nav,details{{display:none}}
section,.tiles div,.notice{{break-inside:avoid;border-color:var(--muted)}}
.tall{{max-height:none}}
}}
"""


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; columns listed in `words` are text, all others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    wrapped: Sequence[int] = ()  # columns of long text


@dataclass
class Section:
    """A part of the page with a heading of its own; `body` is HTML."""

    name: str
    heading: str
    body: list[str] = field(default_factory=list)


def paragraph(words: str, css_class: str = "") -> str:
    """Return a paragraph of plain words."""
    return f"<p{_class(css_class)}>{text(words)}</p>"


def heading(words: str) -> str:
    """Return a heading inside a section."""
    return f"<h3>{text(words)}</h3>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def table(content: Table, caption: str) -> str:
    """Return a table in a box that scrolls by itself, if it is too wide or long; keyboards reach it, too."""

    def cell(tag: str, i: int, words: str, extra: str = "") -> str:
        kind = "l" if i in content.words else ""
        if i in content.wrapped:
            kind = "wrap" if tag == "td" else "l"
        return f"<{tag}{extra}{_class(kind)}>{text(words)}</{tag}>"

    head = "".join(cell("th", i, words, ' scope="col"') for i, words in enumerate(content.header))
    rows = "\n".join(
        f"<tr>{''.join(cell('td', i, words) for i, words in enumerate(row))}</tr>" for row in content.rows
    )
    label = text(caption).replace('"', "&quot;")
    return (
        f'<div class="box tall" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{head}</tr>'
        f"</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def folded(summary: str, content: Table) -> str:
    """Return a table that opens when asked for."""
    return f"<details><summary>{text(summary)}</summary>{table(content, summary)}</details>"


def figure(
    name: str,
    wide: Drawing,
    narrow: Drawing,
    *,
    caption: str = "",
    key: str = "",
    numbers: Table | None = None,
) -> str:
    """Return a picture for wide and one for narrow screens, what to say of it, and the numbers behind it."""
    parts = [inline(wide, name, "wide"), inline(narrow, f"{name}-n", "narrow"), key]
    if caption:
        parts.append(f"<figcaption>{text(caption)}</figcaption>")
    found = f"<figure>{''.join(parts)}</figure>"
    return found if numbers is None else found + "\n" + folded("The numbers", numbers)


def key(entries: Sequence[tuple[Drawing, str]]) -> str:
    """Return the legend of the symbols."""
    items = [f"<li>{small(drawing)}<span>{text(words)}</span></li>" for drawing, words in entries]
    return f'<ul class="key">{"".join(items)}</ul>'


def _unbroken(words: str) -> str:
    """Keep dates like 2024-01 on one line."""
    return " ".join(
        f'<span class="nb">{text(word)}</span>' if "-" in word and len(word) < 20 else text(word)
        for word in words.split(" ")
    )


def page(
    title: str, lead: str, *, quiet: bool, top: Sequence[str], sections: Sequence[Section], foot: str
) -> str:
    """Return the whole file; `top` is HTML that follows the leading sentence."""
    css = themes(":root") + _CSS + style_sheet()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    links = "".join(f'<a href="#{s.name}">{text(s.heading)}</a>' for s in sections)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{text(title)}</title>",
        f"<style>{css}</style>",
        "</head>",
        "<body>",
        "<header>",
        f"<h1>{text(title)}</h1>",
        f'<p class="lead"><span class="{"quiet" if quiet else "loud"}" aria-hidden="true">'
        f"{'●' if quiet else '◆'}</span> {_unbroken(lead)}</p>",
        *top,
        "</header>",
        f'<nav aria-label="Sections">{links}</nav>',
        "<main>",
        *(
            f'<section id="{s.name}" aria-labelledby="{s.name}-h">\n'
            f'<h2 id="{s.name}-h">{text(s.heading)}</h2>\n' + "\n".join(s.body) + "\n</section>"
            for s in sections
        ),
        "</main>",
        f"<footer>{text(foot)}</footer>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"
