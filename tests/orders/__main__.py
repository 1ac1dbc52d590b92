"""Measures the rows of the table of observed orders and writes docs/orders.md.

`python -m tests.orders` measures all rows, `python -m tests.orders WORDS` those whose name holds WORDS; the others keep
their lines.
"""

import sys

import jax

jax.config.update("jax_enable_x64", True)

from .collect import PAGE, all_rows, join_page, kept_lines, measure  # noqa: E402

if __name__ == "__main__":
    words, lines = " ".join(sys.argv[1:]), []
    kept = kept_lines(PAGE.read_text(encoding="utf-8")) if words else {}
    for row in all_rows():
        if words not in row.name and (row.scheme, row.boundary, row.grid) in kept:
            lines.append(kept[row.scheme, row.boundary, row.grid])
            continue
        measured = measure(row)
        lines.append(measured.line)
        print(f"{row.name}: {measured.observed:.2f}, promised {row.order:g}", flush=True)
    PAGE.write_text(join_page(lines), encoding="utf-8")
    print(f"{len(lines)} rows in {PAGE.name}")
