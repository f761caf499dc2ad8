"""triaccel-int8 gives the same bytes as 'triaccel train --method elasticzo-int8'."""
import json
import unittest

import int8_program
from program import run, scratch_folder

NETWORKS = {
    "lenet5": (int8_program.write_digits, "mnist", [
        ["--epochs", "3"],
        ["--epochs", "2.5", "--batch", "48", "--bp-layers", "0", "--seed", "5"],
        ["--steps", "25", "--bp-layers", "5", "--int8-bits", "4-2"],
        ["--epochs", "2", "--val-split", "60", "--train-samples", "170", "--int8-conventions", "paper"],
        ["--epochs", "2", "--bp-layers", "1", "--clean-pass", "--zo-sign", "--int8-rate", "3-6"],
    ]),
    "pointnet-plain": (int8_program.write_clouds, "modelnet40", [
        ["--epochs", "2", "--batch", "8", "--width", "8"],
        ["--epochs", "2", "--batch", "8", "--width", "8", "--bp-layers", "1", "--int8-zo-layers", "3", "--int8-logit-gain", "3"],
    ]),
}


class Equality(unittest.TestCase):
    def train_both(self, folder, words):
        main = run("train", "--method", "elasticzo-int8", "--device", "cpu", "--threads", "1", "--json", "--out",
                   folder / "main", *words)
        self.assertEqual(main.returncode, 0, main.stderr)
        small = int8_program.succeed("train", "--threads", "3", "--out", folder / "small", *words)
        return json.loads(main.stdout), small

    def test_weights_and_slopes_are_the_same_bytes(self):
        for model, (write, data, variants) in NETWORKS.items():
            for variant in variants:
                with self.subTest(model=model, variant=variant), scratch_folder() as folder:
                    root = write(folder / "data")
                    words = ["--model", model, "--data", data, "--data-root", root, *variant]
                    main, small = self.train_both(folder, words)
                    self.assertEqual(int8_program.results(folder / "small"), int8_program.results(folder / "main"))
                    self.assertAlmostEqual(small["accuracy"], main["accuracy"])
                    self.assertAlmostEqual(small["loss"], main["loss"])
                    self.assertEqual(small["steps"], main["steps"])

    def test_weights_go_from_one_to_the_other(self):
        with scratch_folder() as folder:
            root = int8_program.write_digits(folder / "data")
            words = ["--model", "lenet5", "--data", "mnist", "--data-root", root, "--epochs", "1"]
            _, small = self.train_both(folder, words)
            int8_program.succeed("export", folder / "small", folder / "exported")
            self.assertEqual((folder / "exported").read_bytes(), int8_program.results(folder / "main")[0])
            common = ["--data", "mnist", "--data-root", root, "--init-from", folder / "exported"]
            evaluated = run("eval", "--method", "elasticzo-int8", "--device", "cpu", "--model", "lenet5", "--json", *common)
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            self.assertAlmostEqual(json.loads(evaluated.stdout)["accuracy"], small["accuracy"])
            self.assertAlmostEqual(int8_program.succeed("eval", *common)["accuracy"], small["accuracy"])


if __name__ == "__main__":
    unittest.main()
