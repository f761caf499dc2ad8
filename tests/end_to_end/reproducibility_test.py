"""The same seed and threads give the same bytes, three times over, for each optimizer and method."""
import json
import unittest

from program import final_weights, scratch_folder, train


def losses(directory):
    """What the log says, less what a clock had a part in."""
    lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in lines if line["kind"] == "interval"]


class Repeats(unittest.TestCase):
    def test_equal_weights_and_losses(self):
        for method in ("fp32", "amp", "triaccel"):
            for optimizer in ("sgd", "adamw", "adalomo", "apollo-mini"):
                with self.subTest(method=method, optimizer=optimizer), scratch_folder() as folder:
                    for repeat in range(3):
                        train("--method", method, "--optimizer", optimizer, "--threads", 2,
                              "--steps", 6, "--control-interval", 2, "--out", folder / str(repeat))
                    for repeat in range(1, 3):
                        self.assertEqual(final_weights(folder / str(repeat)),
                                         final_weights(folder / "0"))
                        self.assertEqual(losses(folder / str(repeat)), losses(folder / "0"))

    def test_another_seed_gives_other_weights(self):
        with scratch_folder() as folder:
            for seed in (1, 2):
                train("--steps", 2, "--seed", seed, "--out", folder / str(seed))
            self.assertNotEqual(final_weights(folder / "1"), final_weights(folder / "2"))


if __name__ == "__main__":
    unittest.main()
