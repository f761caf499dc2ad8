"""The papers' own figures, as printed. Each of Tri-Accel's stands for three seeds, of which the paper gives no spread."""
import dataclasses

NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Figure:
    """A row as the paper prints it, under our names; NaN where it prints nothing."""
    data: str
    model: str
    method: str
    printed_name: str
    configuration: str = ""  # of the ablation
    accuracy: float = NAN  # %
    seconds_per_epoch: float = NAN
    gigabytes: float = NAN  # peak of GPU memory
    score: float = NAN
    reduction: float = NAN  # % of memory


def _measured(data, model, *rows):
    names = {"fp32": "FP32 Baseline", "amp": "AMP (Static)", "triaccel": "Tri-Accel"}
    return [Figure(data, model, method, names[method], "", *figures) for method, *figures in rows]


def _ablated(model, *rows):
    return [Figure("cifar10", model, "fp32" if configuration == "standard" else "triaccel", name, configuration,
                   gigabytes=gigabytes, reduction=reduction) for configuration, name, gigabytes, reduction in rows]


TRI_ACCEL = {
    # Accuracy, seconds per epoch, GB, score.
    "table1": [
        *_measured("cifar10", "resnet18", ("fp32", 77.0, 21.0, 0.35, 10.48), ("amp", 77.2, 19.4, 0.32, 12.25),
                   ("triaccel", 78.1, 19.5, 0.31, 12.92)),
        *_measured("cifar10", "efficientnet-b0", ("fp32", 78.3, 18.5, 0.30, 14.11), ("amp", 78.7, 17.2, 0.26, 17.59),
                   ("triaccel", 79.4, 16.8, 0.26, 18.17)),
        *_measured("cifar100", "resnet18", ("fp32", 68.2, 24.3, 0.38, 7.39), ("amp", 68.7, 22.8, 0.35, 8.61),
                   ("triaccel", 69.9, 22.4, 0.34, 9.18)),
        *_measured("cifar100", "efficientnet-b0", ("fp32", 72.8, 21.1, 0.33, 10.46), ("amp", 73.1, 19.6, 0.31, 12.03),
                   ("triaccel", 74.3, 19.0, 0.29, 13.48))],
    # Memory under the parts of the method. Its printed reductions do not all follow from its own memory column
    # (EfficientNet-B0: 13.3 % printed, 12.0 % computed).
    "table2": [
        *_ablated("resnet18", ("standard", "Standard Training", 0.350, NAN),
                  ("dynamic-batch", "+ Dynamic Batch Sizing", 0.321, 8.3),
                  ("dynamic-precision", "+ Dynamic Precision", 0.310, 11.4), ("full", "+ Full Tri-Accel", 0.307, 12.3)),
        *_ablated("efficientnet-b0", ("standard", "Standard Training", 0.301, NAN),
                  ("dynamic-batch", "+ Dynamic Batch Sizing", 0.282, 6.0),
                  ("dynamic-precision", "+ Dynamic Precision", 0.270, 10.0), ("full", "+ Full Tri-Accel", 0.265, 13.3))],
}

# The abstract of FDSR: averages and best cases over its own networks, data and devices.
FDSR = {"held_ratio": "10.20", "held_ratio_to_others": "up to 1.686", "accuracy_drop": "1.10",
        "throughput_to_others": "up to 1.2555 times that of other systems"}

# The abstract of ElasticZO, as ranges.
ELASTIC_ZO = {"points_over_zo": "+5.2 to +9.5", "memory_over_zo": "+0.072 to +1.7", "int8_points": "none lost",
              "int8_memory": "1.46 to 1.60", "int8_speed": "1.38 to 1.42"}
