"""Starts triaccel-int8 and makes small data sets for it."""
import json
import os
import pathlib
import random
import struct
import subprocess

TRIACCEL_INT8 = os.path.abspath(os.environ.get("TRIACCEL_INT8", "build/release/triaccel-int8"))
SANITIZED = os.environ.get("TRIACCEL_SANITIZED") == "1"


def call(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120, **options}
    return subprocess.run([TRIACCEL_INT8, *map(str, arguments)], check=False, **options)


def start(*arguments):
    return subprocess.Popen([TRIACCEL_INT8, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def succeed(*arguments, **options):
    """A call that must succeed; its JSON document."""
    done = call(*arguments, "--json", **options)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
    return json.loads(done.stdout)


def write_idx_split(folder, prefix, count, generator):
    """Ten classes of bright patches on noise."""
    pixels, labels = bytearray(), bytearray()
    for i in range(count):
        label = i % 10
        image = bytearray(generator.randrange(60) for _ in range(784))
        for y in range(8):
            for x in range(5):
                image[(2 + 14 * (label // 5) + y) * 28 + 1 + 5 * (label % 5) + x] = 200 + generator.randrange(56)
        pixels += image
        labels.append(label)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def write_digits(folder, train=300, test=60):
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(7)
    write_idx_split(folder, "train", train, generator)
    write_idx_split(folder, "t10k", test, generator)
    return folder


def write_clouds(folder, train=24, test=8):
    """Four classes of boxes, each flat along other axes."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(8)
    (folder / "shape_names.txt").write_text("box\nplate\nwall\nrod\n")
    for split, count in (("train", train), ("test", test)):
        coordinates, labels = bytearray(), bytearray()
        for i in range(count):
            reach = [(500, 500, 500), (500, 500, 20), (20, 500, 500), (20, 20, 500)][i % 4]
            for axis in range(3):
                coordinates += struct.pack("<1024H", *(511 + generator.randint(-reach[axis], reach[axis]) for _ in range(1024)))
            labels.append(i % 4)
        (folder / f"{split}_1024_q10.u16").write_bytes(coordinates)
        (folder / f"{split}_labels.u8").write_bytes(labels)
    return folder


def results(run):
    """What a finished run leaves for others."""
    return [(pathlib.Path(run) / name).read_bytes() for name in ("weights.safetensors", "slopes.i8")]
