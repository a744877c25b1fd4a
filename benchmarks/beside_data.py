"""Record the eight programs of the study of shared caches: a trace and a stream of each.

    python benchmarks/beside_data.py FOLDER [NAME ...]

It needs qemu-user, gcc, sqlite3, xz and bzip2 (Debian). Another version of a program gives another
stream.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import record_traces as others

from msbgen.sources.platform import record_trace

# Four kinds of phases by turns: a sweep over 14 MiB, random reads in 7 MiB, arithmetic, and sweeps
# over 3 MiB.
PHASED = r"""
#include <stdio.h>
#include <stdint.h>
static uint64_t large[14 << 17], middle[7 << 17];
int main(void)
{
    uint64_t x = 1, sum = 0;
    for (int turn = 0; turn < 4; turn++) {
        for (int k = 0; k < 2; k++)
            for (unsigned i = 0; i < 14 << 17; i++)
                sum += large[i] ^= i + turn;
        for (int i = 0; i < 500000; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            sum += middle[(x >> 33) % (7 << 17)] += i;
        }
        for (int i = 0; i < 25000000; i++)
            sum = sum * 31 + (sum >> 7);
        for (int k = 0; k < 8; k++)
            for (unsigned i = 0; i < 3 << 17; i += 2)
                sum += middle[i]++;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
"""

# A hash join: build a table with chains, probe it with keys of uneven popularity, aggregate.
JOIN = r"""
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
enum { ROWS = 220000, BUCKETS = 1 << 16, PROBES = 900000, GROUPS = 5000 };
struct row { uint32_t key, group; double value; struct row *next; };
static struct row rows[ROWS], *buckets[BUCKETS];
static double sums[GROUPS];
static uint32_t hash(uint32_t key) { return key * 2654435761u >> 16; }
int main(void)
{
    uint64_t x = 7;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < BUCKETS; i++)
            buckets[i] = NULL;
        for (int i = 0; i < ROWS; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            rows[i] = (struct row){(uint32_t)(x >> 40), i % GROUPS, i * 0.5, buckets[0]};
            uint32_t b = hash(rows[i].key);
            rows[i].next = buckets[b];
            buckets[b] = &rows[i];
        }
        for (int i = 0; i < PROBES; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint64_t u = x >> 40, wanted = u * u >> 24;
            uint32_t key = rows[wanted * ROWS >> 24].key;
            for (struct row *r = buckets[hash(key)]; r; r = r->next)
                if (r->key == key)
                    sums[r->group] += r->value;
        }
    }
    double total = 0;
    for (int i = 0; i < GROUPS; i++)
        total += sums[i];
    printf("%.6e\n", total);
    return 0;
}
"""

SCRIPT = """
import json
rows = [{"id": i, "name": f"item {i * 7919 % 30011}", "price": i * 37 % 1013} for i in range(15000)]
text = json.dumps(rows)
back = json.loads(text)
total = {}
for row in back:
    total.setdefault(row["name"], []).append(row["price"])
order = sorted(total, key=lambda name: (sum(total[name]), name))
words = sorted(text.split(", "))
print(len(text), order[:3], words[100], sum(len(w) for w in set(words)))
"""


def _text(lines, seed):
    """Lines of two words and a number."""
    rng = np.random.default_rng(seed)
    words = ["".join(map(chr, rng.integers(97, 123, n))) for n in rng.integers(3, 12, 4000)]
    rows = rng.integers(0, 4000, (lines, 3)).tolist()
    Path("words.txt").write_text("\n".join(f"{words[a]} {words[b]} {n}" for a, b, n in rows) + "\n")


def sort():
    _text(220_000, 1)
    return ["sort", "--parallel=1", "-S", "64M", "words.txt"]


def sqlite():
    return others.sqlite()


def xz():
    _text(36_000, 3)
    return ["xz", "-4", "-T1", "-k", "-c", "words.txt"]


def python():
    Path("job.py").write_text(SCRIPT)
    return [os.path.realpath(sys.executable), "-I", "-S", "job.py"]


def phased():
    return _compiled(PHASED, "phased")


def join():
    return _compiled(JOIN, "join")


def bzip2():
    _text(110_000, 4)
    return ["bzip2", "-9", "-k", "-c", "words.txt"]


def gcc():
    command = others.gcc()
    text = Path("functions.c").read_text()
    Path("functions.c").write_text(text[: text.index("unsigned f16(")])
    return command


def _compiled(source, name):
    Path(f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O2", "-o", name, f"{name}.c"], check=True)
    return [f"./{name}"]


PROGRAMS = {f.__name__: f for f in (sort, sqlite, xz, python, phased, join, bzip2, gcc)}
# Kept apart until everything was settled.
UNSEEN = ("bzip2", "gcc")


def record(output, names=tuple(PROGRAMS)):
    """Record programs that `output` does not hold yet."""
    output = Path(output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    os.environ["LC_ALL"] = "C"
    for name in names:
        trace, stream = output / f"{name}.trace.nc", output / f"{name}.stream.nc"
        if stream.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            recorded = record_trace(PROGRAMS[name](), trace, stream=stream, overwrite=True)
            os.chdir("/")
        total = float(recorded["instructions"].sum())
        print(f"{name}: {total:.3g} instructions, {stream.stat().st_size / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(
        description="record the programs of the study of shared caches"
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *PROGRAMS], metavar="NAME")
    arguments = parser.parse_args()
    record(arguments.output, arguments.names or tuple(PROGRAMS))


if __name__ == "__main__":
    main()
