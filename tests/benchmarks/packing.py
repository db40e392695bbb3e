"""Draws how much of the GPU cluster openb each packing policy allocates, over the demand that has arrived.

    bursar bench bind --trace traces/openb -o json > found.json
    python -m tests.benchmarks.packing found.json [more.json …] --out docs/packing.svg

Reads what `bursar bench bind -o json` says, and takes the mean of each policy over its seeds. It prints the table of the
page of benchmarks, too. The picture is text: no library draws it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, EDGE = 720, 420, 50
#: Percent of all cards: of the demand that arrived (from left), and that are allocated (from below).
FROM, UNTIL = 75, 130
LOWEST, HIGHEST = 75, 100
_COLORS = (
    "#1b6ca8", "#d1495b", "#3c8d53", "#8d5a97", "#c98a1b", "#4b5563", "#0f9fa8", "#a63d6f",
)  # fmt: skip

Curve = Mapping[int, float]


def curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """By policy: the mean over its seeds at each percent of demand that all of them have."""
    by_policy: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        by_policy.setdefault(row["policy"], []).append(row["allocation"])
    found = {}
    for policy, runs in by_policy.items():
        shared = set.intersection(*(set(one) for one in runs))
        found[policy] = {
            int(at): sum(one[at] for one in runs) / len(runs) for at in sorted(shared, key=int)
        }
    return found


def picture(found: Mapping[str, Curve]) -> str:
    """The curves as SVG, the highest at 100 % named first."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for at in range(LOWEST, HIGHEST + 1, 5):
        parts.append(_line([(FROM, at), (UNTIL, at)], "#dddddd", 1))
        parts.append(_text(EDGE - 8, _y(at) + 4, f"{at} %", "end"))
    for at in range(FROM, UNTIL + 1, 5):
        parts.append(_text(_x(at), HEIGHT - EDGE + 18, f"{at} %", "middle"))
    parts.append(_line([(LOWEST, LOWEST), (HIGHEST, HIGHEST)], "#999999", 1))
    middle = (EDGE + WIDTH - EDGE) / 2
    parts.append(_text(middle, HEIGHT - 10, "demand that has arrived, of all cards", "middle"))
    parts.append(_text(EDGE, 20, "cards that are allocated", "start"))
    best = sorted(found, key=lambda one: -found[one][100])
    for rank, (policy, color) in enumerate(zip(best, _COLORS, strict=False)):
        shown = [(at, one) for at, one in found[policy].items() if FROM <= at <= UNTIL]
        parts.append(_line(shown, color, 2))
        y = _y(LOWEST) - 18 * (len(best) - rank)
        name = f"{policy}: {found[policy][100]:.2f} % at 100 %"
        parts.append(_text(WIDTH - EDGE - 190, y, name, "start", color))
    return "\n".join((*parts, "</svg>\n"))


def _x(demand: float) -> float:
    return EDGE + (demand - FROM) / (UNTIL - FROM) * (WIDTH - 2 * EDGE)


def _y(allocated: float) -> float:
    return HEIGHT - EDGE - (allocated - LOWEST) / (HIGHEST - LOWEST) * (HEIGHT - 2 * EDGE)


def _line(points: Sequence[tuple[float, float]], color: str, width: int) -> str:
    path = " ".join(f"{_x(at):.1f},{_y(one):.1f}" for at, one in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, anchor: str, color: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{text}</text>'


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds at 80, 100 and 130 %, and how far seeds lie apart."""
    lines = []
    for policy, curve in curves(rows).items():
        runs = [one for one in rows if one["policy"] == policy]
        full = [one["allocation"]["100"] for one in runs]
        speeds = sorted(one["speed"] for one in runs)
        cells = (
            policy, f"{curve[80]:.2f}", f"{curve[100]:.2f}", f"{min(full):.2f} to {max(full):.2f}", f"{curve[130]:.2f}",
            f"{speeds[len(speeds) // 2]:,}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, write the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.packing")
    parser.add_argument("found", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [row for path in args.found for row in json.loads(path.read_text("utf-8"))]
    print(table(rows))
    if args.out:
        args.out.write_text(picture(curves(rows)), "utf-8")


if __name__ == "__main__":
    main()
