"""The user's own images: a folder of images by class, .npz and .safetensors files; and what may be wrong with them."""
import json
import os
import random
import struct
import unittest
import zipfile
import zlib

from program import checkpoints, final_weights, run, scratch_folder


def png(width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def picture(label, seed, width=24, height=20):
    """Stripes whose direction and colour tell the class, with noise."""
    generator = random.Random(1000 * label + seed)
    shift = generator.randrange(8)
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            bright = ((x if label % 2 else y) + shift) // 4 % 2 * 160
            for channel in range(3):
                value = bright + (60 if channel == label else 0) + generator.randrange(30)
                pixels.append(min(255, value))
    return bytes(pixels)


def write_folder(folder, classes=("cat", "dog", "ibis"), count=40):
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            (folder / name / f"{i:03}.png").write_bytes(png(24, 20, picture(label, i)))


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def arrays(count=120, width=20):
    labels = [i % 3 for i in range(count)]
    x = b"".join(picture(label, i, width, 20) for i, label in enumerate(labels))
    return x, labels


def write_npz(path, count=120, divisor=1, width=20):
    x, labels = arrays(count, width)
    x = bytes(pixel // divisor for pixel in x)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", npy("|u1", (count, 20, width, 3), x))
        file.writestr("y.npy", npy("<i8", (count,), struct.pack(f"<{count}q", *labels)))


def write_safetensors(path, count=120):
    x, labels = arrays(count)
    y = struct.pack(f"<{count}q", *labels)
    header = json.dumps({
        "y": {"dtype": "I64", "shape": [count], "data_offsets": [0, len(y)]},
        "x": {"dtype": "U8", "shape": [count, 20, 20, 3], "data_offsets": [len(y), len(y) + len(x)]},
    }).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + y + x)


SMALL = ["--model", "resnet18", "--stem", "cifar", "--width", 8, "--batch", 16, "--device", "cpu",
         "--threads", 2, "--lr", 0.02, "--json", "--quiet"]


def train_on(data, out, *arguments):
    return run("train", "--data", data, "--out", out, *SMALL, *arguments)


def has_images():
    with scratch_folder() as root:
        write_folder(root / "pets", count=2)
        done = train_on(root / "pets", root / "run", "--steps", 1)
        return "without libpng" not in done.stderr


HAS_IMAGES = has_images()
needs_images = unittest.skipUnless(HAS_IMAGES, "this program was built without libpng and libjpeg")


class OwnData(unittest.TestCase):
    def summary(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def refused(self, done, *parts, code=3):
        self.assertEqual(done.returncode, code, done.stderr)
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        for part in parts:
            self.assertIn(part, error["message"] + "; " + error["next"])

    def test_npz_and_safetensors_learn(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz")
            write_safetensors(root / "own.safetensors")
            accuracies = []
            for name in ("own.npz", "own.safetensors"):
                summary = self.summary(train_on(root / name, root / f"run-{name}", "--epochs", 6))
                self.assertGreater(summary["accuracy"], 60)
                self.assertEqual(summary["class_names"], ["0", "1", "2"])
                accuracies.append(summary["loss"])
            self.assertEqual(*accuracies)  # the same numbers in either file
            self.assertIn("held out as test set", (root / "run-own.npz/metrics.jsonl").read_text())

    def test_other_data_is_prepared_as_the_run_s_was(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz")
            write_npz(root / "copy.npz")
            write_npz(root / "dark.npz", divisor=4)
            self.summary(train_on(root / "own.npz", root / "run", "--epochs", 2))
            loss = {}
            for name in ("own", "copy", "dark"):
                done = run("eval", root / "run", "--data", root / f"{name}.npz", "--json")
                loss[name] = self.summary(done)["loss"]
                self.assertIn("held out as test set", done.stderr)
            self.assertEqual(loss["copy"], loss["own"])
            self.assertGreater(abs(loss["dark"] - loss["own"]), 0.01)  # by its own mean it would be the same

    def test_integer_training_takes_square_images(self):
        with scratch_folder() as root:
            write_npz(root / "wide.npz", width=24)
            done = run("train", "--method", "elasticzo-int8", "--model", "lenet5", "--data", root / "wide.npz", "--image-size", 24,
                       "--steps", 1, "--out", root / "run", "--json", "--quiet")
            self.refused(done, "24x20", code=2)

    def test_arrays_in_host_memory_give_the_same_weights(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz")
            for name, memory in (("resident", "none"), ("host", "1kB")):
                self.summary(train_on(root / "own.npz", root / name, "--epochs", 2, "--data-memory", memory))
            self.assertEqual(final_weights(root / "resident"), final_weights(root / "host"))
            self.assertIn("stay in host memory", (root / "host/metrics.jsonl").read_text())

    @unittest.skipUnless(os.path.exists("/dev/nvidia0"), "this machine has no CUDA device")
    def test_captured_steps_read_images_in_host_memory(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz", 600)
            for name, memory in (("resident", "none"), ("host", "1kB")):
                summary = self.summary(train_on(
                    root / "own.npz", root / name, "--epochs", 3, "--method", "triaccel",
                    "--deterministic", "true", "--data-memory", memory, "--device", "cuda"))
                self.assertGreater(summary["graph_replays"], 0)
            self.assertEqual(final_weights(root / "resident"), final_weights(root / "host"))

    def test_defects_of_arrays_are_named(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz")
            whole = (root / "own.npz").read_bytes()
            (root / "cut.npz").write_bytes(whole[:-100])
            self.refused(train_on(root / "cut.npz", root / "run"), "cut.npz")
            damaged = bytearray(whole)
            damaged[60] ^= 1
            (root / "bad.npz").write_bytes(damaged)
            self.refused(train_on(root / "bad.npz", root / "run"), "bad.npz", "x.npy")
            with zipfile.ZipFile(root / "part.npz", "w") as file:
                file.writestr("x.npy", npy("|u1", (1, 2, 2), b"abcd"))
            self.refused(train_on(root / "part.npz", root / "run"), "part.npz", "'y' is missing")
            (root / "notes.txt").write_text("no data")
            self.refused(train_on(root / "notes.txt", root / "run"), "notes.txt", ".npz")
            self.refused(train_on(root / "nothing", root / "run"), "nothing", code=2)
            self.refused(train_on("cifar11", root / "run"), "cifar10", code=2)
            self.assertFalse((root / "run").exists())

    @needs_images
    def test_a_folder_learns_and_names_its_classes(self):
        with scratch_folder() as root:
            write_folder(root / "pets")
            summary = self.summary(train_on(root / "pets", root / "run", "--epochs", 6))
            self.assertGreater(summary["accuracy"], 60)
            self.assertEqual(summary["class_names"], ["cat", "dog", "ibis"])
            self.assertIn("ibis", (root / "run/report.html").read_text())
            notices = (root / "run/metrics.jsonl").read_text()
            self.assertIn("12 of 120 samples", notices)
            self.assertIn("20x20", notices)
            self.assertIn("image_size = 20", (root / "run/config.toml").read_text())
            shown = json.loads(run("eval", root / "run", "--json").stdout)
            self.assertEqual([c["name"] for c in shown["classes"]], ["cat", "dog", "ibis"])
            self.assertEqual(sum(c["samples"] for c in shown["classes"]), 12)
            self.assertAlmostEqual(shown["accuracy"], summary["accuracy"])
            self.assertIn("ibis", run("eval", root / "run").stdout)
            found = json.loads(run("predict", root / "run", root / "pets", "--json").stdout)["predictions"]
            self.assertEqual(len(found), 120)
            right = sum(p["name"] == os.path.basename(os.path.dirname(p["file"])) for p in found)
            self.assertGreater(right, 72)
            one = run("predict", root / "run", root / "pets/dog/003.png").stdout.splitlines()
            self.assertEqual(one[0], "file,image,class,probability,name")
            self.assertEqual(len(one), 2)

    @needs_images
    def test_streamed_and_resident_give_the_same_weights(self):
        with scratch_folder() as root:
            write_folder(root / "pets", count=20)
            for name, memory in (("resident", "none"), ("streamed", "10kB")):
                self.summary(train_on(root / "pets", root / name, "--epochs", 2, "--method", "triaccel",
                                      "--deterministic", "true", "--data-memory", memory))
            self.assertEqual(final_weights(root / "resident"), final_weights(root / "streamed"))
            self.assertIn("decoded while the network trains", (root / "streamed/metrics.jsonl").read_text())

    @needs_images
    def test_a_run_on_a_folder_is_extended(self):
        with scratch_folder() as root:
            write_folder(root / "pets", count=20)
            self.summary(train_on(root / "pets", root / "run", "--epochs", 1))
            done = run("resume", root / "run", "--epochs", 2, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(checkpoints(root / "run")), 2)

    @needs_images
    def test_defects_of_folders_are_named(self):
        with scratch_folder() as root:
            write_folder(root / "pets", count=60)
            (root / "pets/cat/007.png").write_bytes((root / "pets/cat/007.png").read_bytes()[:200])
            self.summary(train_on(root / "pets", root / "run", "--steps", 1))
            self.assertIn("cat/007.png: broken image", (root / "run/metrics.jsonl").read_text())
            self.refused(train_on(root / "pets", root / "strict", "--steps", 1, "--bad-data", "fail"),
                         "cat/007.png")
            for i in range(10):
                (root / f"pets/dog/{i:03}.png").write_bytes(b"RIFF....WEBP")
            self.refused(train_on(root / "pets", root / "many", "--steps", 1), "records are bad",
                         "RIFF....WEBP")
            (root / "pets/empty").mkdir()
            self.refused(train_on(root / "pets", root / "many"), "pets/empty")
            write_folder(root / "one", classes=("cat",), count=3)
            self.refused(train_on(root / "one", root / "many"), "one class only, 'cat'")
            write_folder(root / "loop", count=3)
            (root / "loop/cat/back").symlink_to(root / "loop")
            self.assertEqual(train_on(root / "loop", root / "looped", "--steps", 1).returncode, 0)
            self.assertIn("symbolic link in a circle", (root / "looped/metrics.jsonl").read_text())

    def test_a_new_head_for_another_number_of_classes(self):
        with scratch_folder() as root:
            write_npz(root / "own.npz")
            self.summary(train_on("synthetic", root / "first", "--steps", 2, "--train-samples", 64))
            begin = ["--init-from", root / "first", "--steps", 1]
            self.refused(train_on(root / "own.npz", root / "second", *begin), "--new-head", "[10, 64]", "[3, 64]")
            summary = self.summary(train_on(root / "own.npz", root / "second", *begin, "--new-head", "true"))
            self.assertEqual(summary["class_names"], ["0", "1", "2"])
            self.assertIn("--new-head", (root / "second/metrics.jsonl").read_text())
            self.refused(train_on(root / "own.npz", root / "third", "--new-head", "true"), "--init-from", code=2)


class Messages(unittest.TestCase):
    def test_a_size_that_is_none_is_blamed_on_its_option(self):
        for option in ("--budget", "--data-memory"):
            done = run("train", option, "much", "--print-config")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"[{option}] 'much'", done.stderr)


if __name__ == "__main__":
    unittest.main()
