"""Every kind of data set, read from its official files as a user has them; and what is wrong with them."""
import gzip
import json
import random
import struct
import unittest

from program import run, scratch_folder


def write_mnist(folder, images=200, bad_label_at=None, cut=0):
    """Small idx files in MNIST's layout: a bright column whose place tells the digit."""
    folder.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        pixels, labels = bytearray(), bytearray()
        for i in range(images):
            label = i % 10
            row = bytes(255 if x // 2 == label else 0 for x in range(28))
            pixels += row * 28
            labels.append(label)
        if bad_label_at is not None and prefix == "train":
            labels[bad_label_at] = 77
        header = struct.pack(">iiii", 0x803, images, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels))
        body = struct.pack(">ii", 0x801, images) + labels
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(body[:len(body) - cut])


def write_modelnet(folder):
    folder.mkdir(parents=True)
    generator = random.Random(1)
    (folder / "shape_names.txt").write_text("".join(f"shape{i}\n" for i in range(40)))
    for split in ("train", "test"):
        clouds = bytearray()
        for label in range(40):
            for axis in range(3):
                middle = 100 + 20 * label if axis == 0 else 512
                clouds += struct.pack("<1024H", *(min(1023, middle + generator.randrange(100))
                                                  for _ in range(1024)))
        (folder / f"{split}_1024_q10.u16").write_bytes(clouds)
        (folder / f"{split}_labels.u8").write_bytes(bytes(range(40)))


def write_text(folder):
    folder.mkdir(parents=True)
    (folder / "tinyshakespeare.txt").write_text("To be, or not to be: that is the question.\n" * 400)


def train_on(data, root, *arguments):
    return run("train", "--data", data, "--data-root", root, "--device", "cpu", "--threads", 2,
               "--out", root / "run", "--json", "--quiet", *arguments)


class Kinds(unittest.TestCase):
    def summary(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_images(self):
        with scratch_folder() as root:
            write_mnist(root / "MNIST" / "raw")
            # At the usual 0.05 these images, black and white, diverge with half of all seeds, in FP32 too.
            summary = self.summary(train_on("mnist", root, "--model", "lenet5", "--batch", 20, "--lr", 0.02,
                                            "--epochs", 12, "--augment", "false"))
            self.assertGreater(summary["accuracy"], 90)

    def test_points(self):
        with scratch_folder() as root:
            write_modelnet(root / "modelnet40")
            self.summary(train_on("modelnet40", root, "--model", "pointnet", "--batch", 8, "--steps",
                                  3))

    def test_text(self):
        with scratch_folder() as root:
            write_text(root / "text")
            summary = self.summary(train_on("text", root, "--model", "gpt-small", "--width", 64,
                                            "--context-length", 64, "--batch", 16, "--epochs", 4,
                                            "--optimizer", "adamw"))
            self.assertGreater(summary["accuracy"], 15)

    def test_resized_images(self):
        with scratch_folder() as root:
            write_mnist(root / "mnist")
            self.summary(train_on("mnist", root, "--model", "vit-small", "--width", 64,
                                  "--image-size", 32, "--batch", 20, "--steps", 2))


class Placement(unittest.TestCase):
    def test_is_kept_in_the_configuration(self):
        with scratch_folder() as root:
            write_mnist(root / "mnist")
            done = train_on("mnist", root, "--model", "lenet5", "--batch", 20, "--steps", 2,
                            "--data-placement", "host")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('placement = "host"', (root / "run/config.toml").read_text())
            summary = json.loads(done.stdout.splitlines()[-1])
            self.assertEqual(summary["host_data_bytes"], 0)  # a CPU has no other memory
            self.assertGreater(summary["data_bytes"], 28 * 28)

    def test_of_no_other_name_and_not_of_integer_training(self):
        self.assertIn("--data-placement", run("train", "--help-all").stdout)
        done = run("train", "--data-placement", "hots", "--print-config")
        self.assertEqual(done.returncode, 2)
        self.assertIn("auto, device or host, got 'hots'; did you mean 'host'?", done.stderr)
        done = run("train", "--method", "elasticzo-int8", "--model", "lenet5", "--data-placement", "host",
                   "--print-config")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--data-placement", done.stderr)


class BadData(unittest.TestCase):
    def test_fails_at_the_first_bad_record_and_names_it(self):
        with scratch_folder() as root:
            write_mnist(root / "mnist", bad_label_at=17)
            done = train_on("mnist", root, "--model", "lenet5", "--steps", 1)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("train-labels-idx1-ubyte", done.stderr)
            self.assertIn("17", done.stderr)

    def test_skips_a_few_and_refuses_many(self):
        with scratch_folder() as root:
            write_mnist(root / "few" / "mnist", images=2000, bad_label_at=17)
            done = train_on("mnist", root / "few", "--model", "lenet5", "--steps", 1, "--bad-data",
                            "skip")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("label out of range", (root / "few/run/metrics.jsonl").read_text())
            write_mnist(root / "many" / "mnist", images=200, bad_label_at=17)
            done = train_on("mnist", root / "many", "--model", "lenet5", "--steps", 1, "--bad-data",
                            "skip")
            self.assertEqual(done.returncode, 3, done.stderr)

    def test_doctor_lists_every_defect(self):
        with scratch_folder() as root:
            write_mnist(root / "sound" / "mnist")
            done = run("doctor", "--data", "mnist", "--data-root", root / "sound")
            self.assertEqual(done.returncode, 0, done.stderr)
            write_mnist(root / "bad" / "mnist", bad_label_at=17)
            done = run("doctor", "--data", "mnist", "--data-root", root / "bad", "--json")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual([f["record"] for f in json.loads(done.stdout)["findings"]], [17])

    def test_a_cut_file_is_named(self):
        with scratch_folder() as root:
            write_mnist(root / "mnist", cut=5)
            done = train_on("mnist", root, "--model", "lenet5", "--steps", 1)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("train-labels-idx1-ubyte", done.stderr)


if __name__ == "__main__":
    unittest.main()
