"""Measures every row of the table of observed orders and writes docs/orders.md: `python -m tests.orders`."""

import jax

jax.config.update("jax_enable_x64", True)

from .collect import PAGE, all_rows, measure, to_page  # noqa: E402

if __name__ == "__main__":
    measured = []
    for row in all_rows():
        measured.append(measure(row))
        print(f"{row.name}: {measured[-1].observed:.2f}, promised {row.order:g}", flush=True)
    PAGE.write_text(to_page(measured), encoding="utf-8")
    print(f"{len(measured)} rows written to {PAGE.name}")
