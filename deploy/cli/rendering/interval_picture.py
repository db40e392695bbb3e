"""Bars with their intervals as an SVG, for any browser, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from deploy.cli.rendering.escapes import inert

WIDTH = 760
_LEFT, _RIGHT, _ROW, _TOP = 170, 110, 26, 44
#: Longest shown name, and most bars of a panel.
_NAME, _MOST = 22, 60


class Bar(NamedTuple):
    """A value with its interval."""

    name: str
    low: float
    likely: float
    high: float


def picture(title: str, panels: Mapping[str, Sequence[Bar]]) -> str:
    """The picture. Values below 0 go to the left; of too many bars, the last ones are shown."""
    parts, y = [f'<text x="12" y="24" class="title">{_text(title)}</text>'], _TOP
    for name, bars in panels.items():
        drawn, height = _panel(name, bars[-_MOST:], y)
        parts += drawn
        y += height
    style = (
        "text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}"
        ".panel{font-weight:600}.value{fill:#555}.saved{fill:#2f7d4f}.spent{fill:#b3492c}"
        ".span{stroke:#222;stroke-width:1.5}.axis{stroke:#999}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" viewBox="0 0 {WIDTH} {y + 8}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _panel(name: str, bars: Sequence[Bar], top: int) -> tuple[list[str], int]:
    least = min(0.0, *(bar.low for bar in bars))
    most = max(0.0, *(bar.high for bar in bars))
    scale = (WIDTH - _LEFT - _RIGHT) / ((most - least) or 1.0)

    def x(value: float) -> float:
        return _LEFT + (value - least) * scale

    bottom = top + 12 + _ROW * len(bars)
    found = [
        f'<text x="12" y="{top + 4}" class="panel">{_text(name)}</text>',
        f'<line x1="{x(0):.1f}" y1="{top + 10}" x2="{x(0):.1f}" y2="{bottom}" class="axis"/>',
    ]
    for number, bar in enumerate(bars):
        y = top + 14 + _ROW * number
        begin, end = sorted((x(0), x(bar.likely)))
        side = "saved" if bar.likely >= 0 else "spent"
        middle = y + 8
        found += [
            f'<text x="{_LEFT - 10}" y="{y + 13}" text-anchor="end">{_text(_short(bar.name))}</text>',
            f'<rect x="{begin:.1f}" y="{y}" width="{end - begin:.1f}" height="16" class="{side}"/>',
            f'<line x1="{x(bar.low):.1f}" y1="{middle}" x2="{x(bar.high):.1f}" y2="{middle}" class="span"/>',
            *(
                f'<line x1="{x(at):.1f}" y1="{middle - 4}" x2="{x(at):.1f}" y2="{middle + 4}" class="span"/>'
                for at in (bar.low, bar.high)
            ),
            f'<text x="{WIDTH - _RIGHT + 12}" y="{y + 13}" class="value">{bar.likely:,.1f}</text>',
        ]
    return found, bottom - top + 26


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _text(text: str) -> str:
    return escape(inert(text))
