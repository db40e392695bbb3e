"""Draws something over a day, a line for each set of rules. The picture is text: no library draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, EDGE = 720, 360, 50
_COLORS = ("#1b6ca8", "#d1495b", "#3c8d53", "#8d5a97")


def picture(
    curves: Mapping[str, Sequence[float]],
    title: str = "cards that work, of all",
    *,
    counts: bool = False,
) -> str:
    """By name a share every two minutes, 0 to 1, or a number where it ``counts`` something; as SVG, with the mean of each."""
    most = 1.0
    if counts:
        largest = max((max(one, default=0) for one in curves.values()), default=0)
        most = next(
            step
            for step in (10 ** (at // 3) * (1, 2, 5)[at % 3] for at in range(40))
            if step >= largest
        )
    wide, high = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for at in range(0, 101, 20):
        y = HEIGHT - EDGE - at / 100 * high
        parts.append(_line([(EDGE, y), (WIDTH - EDGE, y)], "#dddddd", 1))
        label = f"{at / 100 * most:g}" if counts else f"{at} %"
        parts.append(_text(EDGE - 8, y + 4, label, "end"))
    for hour in range(0, 25, 4):
        parts.append(_text(EDGE + hour / 24 * wide, HEIGHT - EDGE + 18, f"{hour}:00", "middle"))
    parts.append(_text(EDGE, 20, title, "start"))
    for rank, ((name, shares), color) in enumerate(zip(curves.items(), _COLORS, strict=False)):
        step = wide / max(1, len(shares) - 1)
        # One point for ten minutes is as much as can be seen.
        points = [(EDGE + at * step, HEIGHT - EDGE - shares[at] / most * high) for at in range(0, len(shares), 5)]  # fmt: skip
        parts.append(_line(points, color, 2))
        mean = sum(shares) / max(1, len(shares))
        told = f"{mean:,.0f}" if counts else f"{mean:.1%}"
        parts.append(_text(EDGE + 200 * rank, 40, f"{name}: {told} on the mean", "start", color))
    return "\n".join((*parts, "</svg>\n"))


def _line(points: Sequence[tuple[float, float]], color: str, width: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, anchor: str, color: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{text}</text>'
