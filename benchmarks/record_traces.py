"""Record the project's own traces in profiles/traces/, from inputs that are written here.

    python benchmarks/record_traces.py [-o FOLDER] [NAME ...]

It needs qemu-user, gcc, sqlite3 and bc (Debian). Another version of a program gives another trace.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from msbgen.sources.platform import read_trace, record_trace

TRACES = Path(__file__).parent.parent / "profiles" / "traces"

SQL = """
CREATE TABLE customer(id INTEGER PRIMARY KEY, region INTEGER, name TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, amount REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO customer SELECT i, (i * 7919) % 50, 'customer ' || ((i * 104729) % 20000) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90000)
  INSERT INTO sale SELECT i, (i * 48271) % 20000 + 1, (i * 69621) % 365, (i * 16807) % 9973 FROM n;
CREATE INDEX sale_of_customer ON sale(customer, day);
SELECT region, count(*), sum(amount) FROM sale JOIN customer ON customer = customer.id
  GROUP BY region ORDER BY 3 DESC LIMIT 5;
SELECT name, max(amount) FROM customer JOIN sale ON sale.customer = customer.id
  WHERE day BETWEEN 100 AND 160 GROUP BY name ORDER BY 2 DESC, 1 LIMIT 5;
UPDATE sale SET amount = amount * 1.1 WHERE day % 7 = 3;
SELECT day, avg(amount) AS mean FROM sale GROUP BY day ORDER BY mean DESC LIMIT 5;
"""

# Conjugate gradients for the Poisson equation on a grid of 200 x 200: 5 vectors of 320 kB each.
CG = r"""
#include <stdio.h>
#include <stdlib.h>
enum { N = 200, M = N + 2, ITERATIONS = 200, PROBLEMS = 5 };
static double x[M][M], r[M][M], p[M][M], q[M][M], b[M][M];
static double dot(double u[M][M], double v[M][M])
{
    double s = 0;
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= N; j++)
            s += u[i][j] * v[i][j];
    return s;
}
static void solve(int seed)
{
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= N; j++) {
            x[i][j] = 0;
            r[i][j] = p[i][j] = b[i][j] = (i * 37 + j * seed) % 17 - 8.0;
        }
    double rr = dot(r, r);
    for (int k = 0; k < ITERATIONS; k++) {
        for (int i = 1; i <= N; i++)
            for (int j = 1; j <= N; j++)
                q[i][j] = 4 * p[i][j] - p[i - 1][j] - p[i + 1][j] - p[i][j - 1] - p[i][j + 1];
        double alpha = rr / dot(p, q), next;
        for (int i = 1; i <= N; i++)
            for (int j = 1; j <= N; j++) {
                x[i][j] += alpha * p[i][j];
                r[i][j] -= alpha * q[i][j];
            }
        next = dot(r, r);
        for (int i = 1; i <= N; i++)
            for (int j = 1; j <= N; j++)
                p[i][j] = r[i][j] + next / rr * p[i][j];
        rr = next;
    }
    printf("%.6e %.6e\n", rr / dot(b, b), dot(x, b));
}
int main(void)
{
    for (int k = 0; k < PROBLEMS; k++)
        solve(101 + 2 * k);
    return 0;
}
"""


def sqlite():
    Path("sales.sql").write_text(SQL)
    return ["sqlite3", ":memory:", ".read sales.sql"]


def sort():
    rng = np.random.default_rng(1)
    words = ["".join(map(chr, rng.integers(97, 123, n))) for n in rng.integers(3, 12, 4000)]
    lines = [
        f"{words[a]} {words[b]} {n}" for a, b, n in rng.integers(0, 4000, (800_000, 3)).tolist()
    ]
    Path("words.txt").write_text("\n".join(lines) + "\n")
    return ["sort", "--parallel=1", "-S", "64M", "words.txt"]


def gcc():
    """Run the compiler proper on generated C functions of many shapes."""
    rng = np.random.default_rng(2)
    operators = ["+", "-", "*", "^", "|", "&"]
    parts = ["unsigned table[256];\n"]
    for f in range(45):
        a, b, c, d, e = rng.integers(1, 200, 5).tolist()
        o, p, q = (operators[k] for k in rng.integers(0, 6, 3))
        parts.append(
            f"unsigned f{f}(unsigned x, unsigned y)\n{{\n    unsigned s = {a};\n"
            f"    for (unsigned i = 0; i < (x & {b}); i++) {{\n"
            f"        if (((x {o} i) & {c}) > y % {d})\n"
            f"            s = (s {p} table[(i * {e}) & 255]) + y;\n"
            f"        else\n            table[s & 255] {q}= s {o} (y >> 3);\n    }}\n"
            f"    switch (s % 5) {{\n    case 0: return s {q} x;\n    case 1: return s / {e};\n"
            f"    case 2: return f{max(f - 1, 0)}(y & 7, s);\n    default: return s;\n    }}\n}}\n"
        )
    Path("functions.c").write_text("\n".join(parts))
    found = subprocess.run(
        ["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True
    )
    return [found.stdout.strip(), "-quiet", "-O2", "functions.c", "-o", "-"]


def bc():
    Path("pi.bc").write_text("scale=700\n4*a(1)\ne(1)\nsqrt(2)\nquit\n")
    return ["bc", "-l", "pi.bc"]


def cg():
    Path("cg.c").write_text(CG)
    subprocess.run(["gcc", "-O2", "-o", "cg", "cg.c"], check=True)
    return ["./cg"]


PROGRAMS = {f.__name__: f for f in (sqlite, sort, gcc, bc, cg)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *PROGRAMS], metavar="NAME")
    parser.add_argument("-o", "--output", type=Path, default=TRACES)
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    os.environ["LC_ALL"] = "C"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in arguments.names or PROGRAMS:
            path = output / f"{name}.nc"
            record_trace(PROGRAMS[name](), path, overwrite=True)
            total = float(read_trace(path).instructions.sum())
            print(f"{name}: {total:.3g} instructions, {path.stat().st_size / 1e3:.0f} kB")
        os.chdir("/")


if __name__ == "__main__":
    main()
